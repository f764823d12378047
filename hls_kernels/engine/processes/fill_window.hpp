// Writes what is read of the input to the banks of the window (plan.hpp says where what lies).
//
// Words of a row go to as many banks in a cycle; a folded input is cut into words of several neighbouring pixels, one a cycle.
#pragma once
#include "../positions.hpp"
#include "load_input.hpp"

namespace engine {

// Rows of a block of the input in the window: they go through the phase planes of a stride in turn. Positions are those of the
// rows' first words.
class row_walk {
public:
    // Rows above the input are left out: the first one that exists may be of any phase.
    row_walk(const job_t& job, const input_rows& rows)
        : apart_(job.p.planes[0] > 1),
          pitch_(job.p.pitch),
          plane_(apart_ ? job.p.row_plane : 0),
          block_(job.p.block_rows * P),
          last_phase_(job.c.stride[0] - 1),
          last_row_(rows.behind() - rows.first() - 1) {
#pragma HLS inline
        position_t above = 0, offset = 0;
        number<SMALL_BITS> phase = 0;
        PIPELINED(rows_above) for (input_rows::row_index y = rows.top(); y < 0; y++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 0 max = (1 << SMALL_BITS)
            ITERATION(rows_above);
            const bool wraps = phase == last_phase_;
            above = when<position_t>(wraps, above + pitch_, above);
            offset = when<position_t>(wraps, 0, offset + plane_);
            phase = when<number<SMALL_BITS>>(wraps, 0, phase + 1);
        }
        first_phase_ = phase_ = phase;
        base_ = above;
        at_ = above + offset;
        next_base_ = base_ + block_;
        next_at_ = at_ + block_;
    }
    // Where rows follow each other in the window as in memory, they are one.
    void straighten() { last_row_ = 0; }

    position_t at() const { return at_; }
    bool kept() const { return apart_ || phase_ == 0; }
    bool last() const { return y_ == last_row_; }
    // To the next row if this one ends, of the next block behind the last one.
    void next(bool ends) {
#pragma HLS inline
        const bool block_ends = ends && last(), wraps = ends && phase_ == last_phase_;
        const position_t from = wraps ? base_ : at_;
        const position_t step = when<position_t>(wraps, pitch_, when<position_t>(ends, plane_, 0));
        const position_t base_step = when<position_t>(wraps, pitch_, 0),
                         block = when<position_t>(block_ends, block_, 0);
        at_ = when<position_t>(block_ends, next_at_, from + step);
        base_ = when<position_t>(block_ends, next_base_, base_ + base_step);
        next_at_ = next_at_ + block;
        next_base_ = next_base_ + block;
        const number<SMALL_BITS> phase = when<number<SMALL_BITS>>(wraps, 0, phase_ + ends);
        phase_ = block_ends ? first_phase_ : phase;
        y_ = when<number<SIZE_BITS>>(block_ends, 0, y_ + ends);
    }

private:
    bool apart_;
    position_t pitch_, plane_, block_;
    number<SMALL_BITS> last_phase_, first_phase_, phase_;
    number<SIZE_BITS> last_row_, y_ = 0;
    position_t base_, at_, next_base_, next_at_;  // of the row's phase 0, and of the row; of the next block's first row
};

// Up to FILL words of a row at once: without a stride to consecutive positions, with a stride of 2 in turn to two phase planes,
// which lie some banks apart (plan.hpp). Other strides, and arrays of fewer banks, take a word a cycle.
// \tparam WIDE Whether up to FILL words are written in a cycle, not one.
template <bool WIDE>
void fill_words(beat_stream& in, window_t& window, const job_t& job, const input_rows& rows) {
#pragma HLS inline
    typedef number<POSITION_BITS> pixels_t;
    typedef number<4> words_t;
    typedef number<SMALL_BITS> phase_t;
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    const phase_t stride = c.stride[1], last_phase = stride - 1;
    const bool pairs = WIDE && stride == 2, single = !WIDE && stride != 1, columns_apart = p.planes[1] > 1;
    const position_t plane = columns_apart ? p.plane : 0;
    const bool straight = stride == 1 && c.stride[0] == 1 && p.pitch == c.in_width;
    const pixels_t width = when<pixels_t>(straight, (rows.element_behind() - rows.first_element()) >> 4, c.in_width);
    const words_t skip = (rows.first_element() >> 4) % PORT_WORDS;
    const number<BLOCK_BITS> last_block = c.in_blocks - 1;
    row_walk row(job, rows);
    if (straight) row.straighten();

    number<BLOCK_BITS> block = 0;
    pixels_t left = width;                                                     // words of the row
    words_t room = PORT_WORDS == 1 ? 1 : static_cast<int>(PORT_WORDS - skip);  // and of the beat
    bool fresh = true, more = true;
    position_t at = row.at(), odd_at = row.at() + plane, column = row.at();
    bool odd = false;     // of pairs: the next word is of the second phase
    phase_t phase_x = 0;  // of single words
    beat_t beat;
    PIPELINED(fill_words) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = MOST_MAP_WORDS
        ITERATION(fill_words);
        if (PORT_WORDS == 1 || fresh) beat = in.read();
        const words_t most = when<words_t>(FILL == PORT_WORDS || room < FILL, room, FILL);
        const words_t limit = when<words_t>(WIDE, most, 1);
        const bool row_ends = left <= limit;
        const words_t n = when<words_t>(row_ends, left, limit);
        const bool block_ends = row_ends && row.last(), row_kept = row.kept();

        const bank_place_t even_place = place_of(at), odd_place = pairs ? place_of(odd_at) : even_place;
        row_t address[FILL];
        bank_t bank[FILL];
        for (int i = 0; i < FILL; i++) {
#pragma HLS unroll
            const int turn = odd + i;
            const bool second = pairs && (turn & 1);
            const phase_t phase = when<phase_t>(pairs, turn & 1, phase_x);
            const bank_place_t place = behind(second && columns_apart ? odd_place : even_place, pairs ? turn >> 1 : i);
            const bool kept = i < n && row_kept && (columns_apart || phase == p.tap_phase);
            address[i] = place.row;
            bank[i] = when<bank_t>(kept, place.bank, P);
        }
        for (int k = 0; k < P; k++) {  // bank by bank: each has one port to write to
#pragma HLS unroll
            bool hit = false;
            row_t to = address[0];
            word_t word = word_of(beat, static_cast<int>((PORT_WORDS - room) % PORT_WORDS));
            for (int i = 0; i < FILL; i++) {
#pragma HLS unroll
                if (bank[i] != k) continue;
                hit = true;
                to = address[i];
                word = word_of(beat, static_cast<int>((PORT_WORDS - room + i) % PORT_WORDS));
            }
            if (hit) window.bank[k][to & (WINDOW_ROWS - 1)] = word;
        }

        // Compared before it is subtracted: the beat ends with the words that are taken.
        const bool whole = WIDE && FILL == PORT_WORDS;
        const words_t rest = when<words_t>(row_ends || whole, room - left, room - limit);
        const bool drained = whole ? !row_ends || left == room : WIDE ? rest == 0 : room == 1;
        fresh = block_ends || drained;
        if (PORT_WORDS > 1)
            room = when<words_t>(block_ends, PORT_WORDS - skip, when<words_t>(drained, PORT_WORDS, rest));
        left = when<pixels_t>(row_ends, width, left - limit);
        more = !(block_ends && block == last_block);
        block = block + block_ends;
        row.next(row_ends);
        const bool wraps = single && phase_x == last_phase;
        const words_t ahead = odd + n;
        const position_t of_single = when<position_t>(wraps, 1, plane), of_pairs = ahead >> 1;
        const position_t step = when<position_t>(single, of_single, when<position_t>(pairs, of_pairs, n));
        const position_t base = wraps ? column : at;
        at = when<position_t>(row_ends, row.at(), base + step);
        column = when<position_t>(row_ends, row.at(), column + wraps);
        odd_at = when<position_t>(row_ends, row.at() + plane, odd_at + step);
        odd = !row_ends && pairs && (ahead & 1) != 0;
        phase_x = when<phase_t>(row_ends || wraps || !single, 0, phase_x + 1);
    }
}

// Elements of a word before `at`.
inline number<5> within_word(const number<PIXEL_BITS>& at) {
#pragma HLS inline
    const bool before = at<0, behind = at> CHANNELS;
    return when<number<5>>(before, 0, when<number<5>>(behind, CHANNELS, at));
}

// Words of a folded input: at each place where a tap may begin as many neighbouring pixels as a word has, cut out of two words
// of memory. The next of these is needed every other time at most, since a row's places cover it (plan.hpp, pitch).
inline void fill_folded(beat_stream& in, window_t& window, const job_t& job, const input_rows& rows) {
#pragma HLS inline
    typedef number<PIXEL_BITS> elements_t;
    constexpr int TWO = 2 * CHANNELS;
    const mac_command& c = job.c;
    const plan_t& p = job.p;
    const number<5> step = c.stride[1] << p.pixel_shift;
    const elements_t before = c.padding[1] << p.pixel_shift, row_elements = p.row_elements;
    const number<7> skip = rows.first_element() & (PORT_WORDS * CHANNELS - 1);
    row_walk row(job, rows);

    beat_t beat = in.read();
    word_t older, newer = word_of(beat, static_cast<int>(skip / CHANNELS));
    elements_t have = skip / CHANNELS + 1;                       // words that have been taken
    number<3> j = (skip / CHANNELS + 1) % PORT_WORDS;            // the next one's place in its beat
    elements_t row_begin = skip, row_end = skip + row_elements;  // counted from the first beat's first element
    elements_t from = skip - before;                             // the word's
    number<SIZE_BITS> column = 0;
    const number<SIZE_BITS> last_column = p.pitch - 1;
    position_t at = row.at();
    bool more = true;
    older = newer;
    PIPELINED(fill_folded) while (more) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = (1 << PIXEL_BITS)
        ITERATION(fill_folded);
        const elements_t last = when<elements_t>(from + CHANNELS < row_end, from + CHANNELS, row_end) - 1;
        const bool takes = (last >> 4) >= have;
        if (takes) {
            if (PORT_WORDS == 1 || j == 0) beat = in.read();
            older = newer;
            newer = word_of(beat, static_cast<int>(j));
        }
        have = have + takes;
        if (PORT_WORDS > 1) j = when<number<3>>(takes && j == PORT_WORDS - 1, 0, j + takes);

        element_t turned[TWO];
#pragma HLS array_partition variable = turned complete
        for (int i = 0; i < TWO; i++) turned[i] = i < CHANNELS ? older.lane[i] : newer.lane[i - CHANNELS];
        const ap_uint<5> turns = from - (have - 2) * CHANNELS;
        for (int s = CHANNELS; s > 0; s /= 2) {
#pragma HLS unroll
            element_t before_turn[TWO];
#pragma HLS array_partition variable = before_turn complete
            for (int i = 0; i < TWO; i++) before_turn[i] = turned[i];
            for (int i = 0; i < TWO; i++) turned[i] = (turns & s) ? before_turn[(i + s) % TWO] : before_turn[i];
        }
        const elements_t low = row_begin - from, high = row_end - from;
        const number<5> begin = within_word(low), end = within_word(high);
        word_t word;
        for (int i = 0; i < CHANNELS; i++) {
#pragma HLS unroll
            word.lane[i] = i >= begin && i < end ? turned[i] : pad_of(c);
        }
        const bank_place_t place = place_of(at);
        const bool kept = row.kept();
        for (int k = 0; k < P; k++) {
#pragma HLS unroll
            if (k == place.bank && kept) window.bank[k][place.row & (WINDOW_ROWS - 1)] = word;
        }

        const bool row_ends = column == last_column;
        more = !(row_ends && row.last());
        column = when<number<SIZE_BITS>>(row_ends, 0, column + 1);
        from = when<elements_t>(row_ends, row_end - before, from + step);
        row_begin = row_ends ? row_end : row_begin;
        row_end = when<elements_t>(row_ends, row_end + row_elements, row_end);
        row.next(row_ends);
        at = when<position_t>(row_ends, row.at(), at + 1);
    }
}

inline void fill_window(job_stream<window_fields>& jobs, uint32_t count, beat_stream& in, window_blocks& windows) {
fill_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const job_t job = jobs.read();
        if (!job.runs) continue;
        sim::command(i);
        const bool fold = folded(job.c);
        for (number<SMALL_BITS> head = 0; head < job.p.heads; head++) {
#pragma HLS loop_tripcount min = 1 max = MOST_HEADS
            input_rows rows(job);
        fill_windows:
            for (number<LOAD_BITS> w = 0; w < job.p.window_loads; w++) {
#pragma HLS loop_tripcount min = 1 max = MOST_LOADS
                CYCLES(fill_window);
                hls::write_lock<window_t> lock(windows);
                window_t& window = lock;
#pragma HLS array_partition variable = window.bank dim = 1 complete
                if (rows.any()) {
                    const int32_t stride = job.c.stride[1];
                    if (fold)
                        fill_folded(in, window, job, rows);
                    else if (FILL > 1 && (stride == 1 || (stride == 2 && FILL == 4 && P >= 5)))
                        fill_words<true>(in, window, job, rows);
                    else
                        fill_words<false>(in, window, job, rows);
                }
                rows.next();
            }
        }
    }
}

}  // namespace engine
