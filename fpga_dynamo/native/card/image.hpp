// A card's programmable logic as one xclbin makes it: banks, kernels, compute units.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "card_abi.hpp"
#include "compute_unit.hpp"
#include "kernel_code.hpp"
#include "lanes.hpp"
#include "memory.hpp"
#include "stream.hpp"
#include "xclbin.hpp"

namespace card_model {

class image : public address_space {
public:
    // Throws xclbin_error if the file does not run here, out_of_memory if its banks find no address space.
    static std::shared_ptr<image> create(xclbin file, unsigned lanes);

    const xclbin& file() const { return file_; }
    const std::vector<std::shared_ptr<bank>>& banks() const { return banks_; }
    const kernel_info& kernel(const std::string& name) const;  // throws error for an unknown name
    // Of a kernel, in the file's order.
    std::vector<compute_unit*> compute_units(const kernel_info& kernel) const;
    const std::vector<std::unique_ptr<compute_unit>>& compute_units() const { return units_; }
    bool busy() const;  // but for kernels that run for ever
    unsigned lanes() const { return team_.lanes(); }

    void* translate(uint64_t address, uint64_t* bytes) const override;
    bool find(uint64_t address, buffer_extent* found) const override;
    bool find_near(const void* host, buffer_extent* found) const override;
    std::string describe(const void* host) const override;

private:
    image(xclbin file, unsigned lanes);

    const xclbin file_;
    std::vector<std::shared_ptr<bank>> banks_;
    kernel_code kernels_;
    lane_team team_;
    stream_network streams_;
    std::vector<std::unique_ptr<compute_unit>> units_;  // go first: their threads use all of the above
    std::vector<const kernel_info*> unit_kernels_;
};

}  // namespace card_model
