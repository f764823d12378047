#include "card.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cpu.hpp"
#include "error.hpp"
#include "process.hpp"

namespace card_model {

namespace {

constexpr unsigned MAX_CARDS = 64, MAX_LANES = 1024;

unsigned from_environment(const char* variable, unsigned standard, unsigned most) {
    const char* text = std::getenv(variable);
    if (!text || !*text) return standard;
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    if (*end || value < 1 || value > most)
        throw error(std::string(variable) + "='" + text + "' is not a whole number from 1 to " + std::to_string(most));
    return static_cast<unsigned>(value);
}

// Never destroyed: at the end of the process its threads may still be at work.
struct registry {
    std::mutex mutex;
    std::map<unsigned, std::shared_ptr<card>> cards;
    std::vector<std::weak_ptr<card>> beside;
};

registry& all() {
    static registry& only = *new registry;
    return only;
}

}  // namespace

unsigned card::count() { return from_environment("FPGA_DYNAMO_EMULATED_CARDS", 1, MAX_CARDS); }

std::shared_ptr<card> card::open(unsigned index) {
    check_process();
    if (const unsigned cards = count(); index >= cards)
        throw error("there is no card " + std::to_string(index) + ": this process has " + std::to_string(cards) +
                    " emulated device(s); set FPGA_DYNAMO_EMULATED_CARDS for more");
    watch_forks();
    std::lock_guard lock(all().mutex);
    std::shared_ptr<card>& slot = all().cards[index];
    if (!slot) slot = std::make_shared<card>(index);
    return slot;
}

std::shared_ptr<card> card::beside(unsigned index) {
    check_process();
    auto fresh = std::make_shared<card>(index);
    std::lock_guard lock(all().mutex);
    auto& known = all().beside;
    known.erase(std::remove_if(known.begin(), known.end(), [](const auto& card) { return card.expired(); }),
                known.end());
    known.push_back(fresh);
    return fresh;
}

void card::shut_down() {
    if (forked()) return;
    std::lock_guard lock(all().mutex);
    std::vector<std::shared_ptr<card>> cards;
    for (const auto& [index, card] : all().cards) cards.push_back(card);
    for (const auto& other : all().beside)
        if (auto card = other.lock()) cards.push_back(std::move(card));
    for (const auto& card : cards)
        if (const auto image = card->try_loaded())
            for (const auto& unit : image->compute_units()) unit->cancel_all();
}

void card::load(const xclbin& file) {
    check_process();
    std::lock_guard loading(load_mutex_);
    release_ended();
    const auto before = try_loaded();
    if (before && before->file().id() == file.id()) return;
    const auto check_idle = [&] {
        if (before && before->busy())
            throw error("card " + std::to_string(index_) + " cannot load xclbin '" + file.name() +
                        "' while a run is under way; wait for it first");
    };
    check_idle();
    auto fresh = image::create(file, from_environment("FPGA_DYNAMO_LANES", usable_cpus(), MAX_LANES));
    check_idle();
    std::lock_guard lock(mutex_);
    image_ = std::move(fresh);
}

std::shared_ptr<image> card::try_loaded() const {
    std::lock_guard lock(mutex_);
    return image_;
}

std::shared_ptr<image> card::loaded() const {
    auto current = try_loaded();
    if (!current) throw error("card " + std::to_string(index_) + " has no xclbin; call load_xclbin first");
    return current;
}

void card::adopt(std::shared_ptr<const ert_command> command, std::shared_ptr<void> needs) {
    release_ended();
    std::lock_guard lock(mutex_);
    abandoned_runs_.push_back({std::move(command), std::move(needs)});
}

void card::release_ended() {
    std::vector<abandoned_run> ended;  // let go without the lock
    std::lock_guard lock(mutex_);
    const auto first = std::partition(abandoned_runs_.begin(), abandoned_runs_.end(),
                                      [](const abandoned_run& o) { return o.command->busy(); });
    std::move(first, abandoned_runs_.end(), std::back_inserter(ended));
    abandoned_runs_.erase(first, abandoned_runs_.end());
}

}  // namespace card_model
