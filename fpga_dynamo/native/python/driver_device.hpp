// A card behind one of Python's drivers as the device of an exported model: a card at the other end of a network.
#pragma once
#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <string>

#include "device.hpp"

// opener: makes a fpga_dynamo.deployment.driver_device.DriverDevice of an xclbin's path. What is returned, and what that
// returns, may be used and let go of on any thread, without the GIL. What Python raises comes back as it was raised.
std::function<std::shared_ptr<fd::device>(const std::string& path, const std::string& uuid)>
driver_opener(nanobind::object opener);
