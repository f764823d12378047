// Words in any order, as a table of runs names them: what load_input and collect do for it.
#pragma once
#include "streams.hpp"

namespace engine {

#if ENGINE_HAS_GATHER

constexpr int RUNS_AHEAD = 16;  // runs that are asked for and not yet read, with the one that is read

// A run that has been requested: the place of its first word in a beat, and words; none behind the last run.
struct requested_run_t {
    ap_uint<bits_for(PORT_WORDS)> place;
    bool fills;
    uint32_t filling;
    number<GATHER_BITS> words;
};

// How often something is still done, and whether this is the last time, which is known a cycle ahead.
// \tparam BITS Bits of the number.
template <int BITS>
class countdown {
public:
    explicit countdown(int32_t times) : times_(times), left_(times), once_(times == 1), last_(times == 1) {
#pragma HLS inline
    }
    bool last() const { return last_; }
    // The first time again follows the last.
    void count() {
#pragma HLS inline
        const bool next_is_last = left_ == count_t(2);
        const count_t fewer = left_ - 1;
        left_ = last_ ? times_ : fewer;
        last_ = last_ ? once_ : next_is_last;
    }

private:
    typedef number<BITS> count_t;
    const count_t times_;
    count_t left_;
    const bool once_;
    bool last_;
};

// Asks for the runs of a command one by one, of each head the whole table. A constant is a run for each head, of which nothing
// is asked: its words come as a table does.
class run_asker {
public:
    explicit run_asker(const vector_job_t& job)
        : runs_(is_constant(job.c) ? 1 : job.c.runs),
          inner_(job.c.heads[1]),
          outer_(job.c.heads[0]),
          words_(job.p.plane << LINE_SHIFT),
          constant_(is_constant(job.c)),
          row_(job.c.input),
          base_(job.c.input),
          steps_{static_cast<uint32_t>(job.c.input_head[0]), static_cast<uint32_t>(job.c.input_head[1])} {
#pragma HLS inline
    }
    // Whether the next run is the first one of a beat of the table.
    bool begins_beat() const { return more_ && !constant_ && entry_ == 0; }
    // beat: of the table, where one begins.
    requested_run_t next(input_port_t& maps, const beat_t& beat) {
#pragma HLS inline
        requested_run_t asked = {0, false, 0, 0};
        if (!more_) return asked;
        asked.words = words_;
        if (!constant_) {
            if (entry_ == 0) entries_ = beat;
            const run_t run = run_of(entries_, static_cast<int>(entry_));
            const uint32_t word = base_ + static_cast<uint32_t>(run.first), place = word & (PORT_WORDS - 1);
            const uint32_t beats = (place + static_cast<uint32_t>(run.words) + (PORT_WORDS - 1)) / PORT_WORDS;
            asked = {place, run.source == GATHER_FILL, run.filling, run.words};
            if (!asked.fills) maps.read_request(word / PORT_WORDS, static_cast<int32_t>(beats));
        }
        const bool ends = runs_.last(), row_ends = ends && inner_.last();
        const uint32_t next_row = row_ + steps_[0], next = base_ + steps_[1];
        entry_ = ends ? 0 : (static_cast<int>(entry_) + 1) & (BEAT_RUNS - 1);
        more_ = !(row_ends && outer_.last());
        if (ends) base_ = row_ends ? next_row : next;
        if (row_ends) {
            row_ = next_row;
            outer_.count();
        }
        if (ends) inner_.count();
        runs_.count();
        return asked;
    }

private:
    countdown<GATHER_BITS> runs_;
    countdown<SMALL_BITS> inner_, outer_;
    const number<GATHER_BITS> words_;
    const bool constant_;
    uint32_t row_, base_;
    const uint32_t steps_[2];
    beat_t entries_ = {};
    ap_uint<bits_for(BEAT_RUNS)> entry_ = 0;
    bool more_ = true;
};

// Runs on their way, the oldest first, and its words, which become lines.
class gathered_runs {
public:
    explicit gathered_runs(const vector_job_t& job) : asker_(job), constant_(is_constant(job.c)) {
#pragma HLS inline
#pragma HLS array_partition variable = asked_ complete
    }
    // Whether a beat of the table has to be read before the next run is asked for.
    bool begins_beat() const { return asker_.begins_beat(); }
    // Asks for one more run; the next one is the oldest then. Answers its words.
    number<GATHER_BITS> advance(input_port_t& maps, const beat_t& entries) {
#pragma HLS inline
        for (int i = 1; i < RUNS_AHEAD; i++) {
#pragma HLS unroll
            asked_[i - 1] = asked_[i];
        }
        asked_[RUNS_AHEAD - 1] = asker_.next(maps, entries);
        place_ = asked_[0].place;
        return asked_[0].words;
    }
    // Whether a word is the first one of a beat that comes from the weights. begins: the first one of a run.
    bool copies(bool begins) const { return constant_ && (begins || place_ == 0); }
    // The oldest run's next word. constant: the beat of a constant, unused otherwise.
    void put_word(input_port_t& maps, bool begins, const beat_t& constant, line_stream& out) {
#pragma HLS inline
        beat_t filling;
        for (int i = 0; i < PORT_BYTES / 4; i++) {
#pragma HLS unroll
            set_bits32(filling, i, asked_[0].filling);
        }
        if (begins || place_ == 0) beat_ = asked_[0].fills ? filling : constant_ ? constant : maps.read();
        add_word(line_, word_of(beat_, static_cast<int>(place_)));
        place_ = (static_cast<int>(place_) + 1) & (PORT_WORDS - 1);
        if (turn_ == BEAT - 1) out.write(line_);
        turn_ = (static_cast<int>(turn_) + 1) & (BEAT - 1);
    }

private:
    run_asker asker_;
    requested_run_t asked_[RUNS_AHEAD] = {};
    const bool constant_;
    beat_t beat_ = {};
    line_t line_ = {};
    ap_uint<bits_for(PORT_WORDS)> place_ = 0;
    ap_uint<bits_for(BEAT)> turn_ = 0;  // of the line
};

// The blocks of a command in lines, head by head. table: runs, or the lines of a constant. `started`: windows and groups since
// the list began.
inline void gather_blocks(input_port_t& maps, const vector_job_t& job, run_stream& table, done_stream& done,
                          progress_t& progress, turns_t& started, line_stream& out) {
    typedef number<GATHER_BITS> words_t;
    const words_t words = job.p.plane << LINE_SHIFT;
    gathered_runs runs(job);
gather_requests:
    for (number<bits_for(RUNS_AHEAD + 1)> k = 1; k < RUNS_AHEAD; k++) {
        CYCLES(gather_run);
        beat_t entries;
        if (runs.begins_beat()) entries = table.read();
        runs.advance(maps, entries);
    }
gather_heads:
    for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
        CYCLES(vector_group);
        progress.at_most_ahead(done, started, WINDOWS_AHEAD);
        started = started + 1;
#if ENGINE_CUS > 1
        // A request may be one for each page, which no word waits for otherwise.
        words_t of_run = 0;
    gather_runs:
        for (words_t n = 0; n < words; n += of_run) {
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
            CYCLES(gather_run);
            beat_t entries;
            if (runs.begins_beat()) entries = table.read();
            of_run = runs.advance(maps, entries);
            PIPELINED(gather_words) for (words_t k = 0; k < of_run; k++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
                ITERATION(gather_words);
                beat_t constant;
                if (runs.copies(k == 0)) constant = table.read();
                runs.put_word(maps, k == 0, constant, out);
            }
        }
#else
        words_t left = 0;    // of the run, with the one that comes
        bool begins = true;  // whether that is a run's first one, which is known a cycle ahead
        PIPELINED(gather_words) for (words_t n = 0; n < words; n++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << GATHER_BITS)
            ITERATION(gather_words);
            beat_t constant;  // a stream is read at one place
            if (runs.copies(begins) || (begins && runs.begins_beat())) constant = table.read();
            if (begins) left = runs.advance(maps, constant);
            runs.put_word(maps, begins, constant, out);
            begins = left == words_t(1);
            left = left - 1;
        }
#endif
    }
}

#endif

}  // namespace engine
