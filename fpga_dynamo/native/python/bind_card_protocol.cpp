// The constants of the card server's protocol, for the server and the client in Python.
#include "bindings.hpp"
#include "protocol.hpp"

void bind_card_protocol(nb::module_& module) {
    nb::module_ constants = module.def_submodule("card_protocol", "The card server's protocol; see protocol.hpp.");
    constants.attr("MAGIC") = nb::bytes(card_protocol::MAGIC, card_protocol::MAGIC_BYTES);
#define CONSTANT(name) constants.attr(#name) = card_protocol::name
    CONSTANT(VERSION);
    CONSTANT(MOST_HEAD);
    CONSTANT(MOST_PAYLOAD);
    CONSTANT(MOST_GREETING);
    CONSTANT(GREETING_SECONDS);
    CONSTANT(QUIET_SECONDS);
    CONSTANT(PROBE_SECONDS);
    CONSTANT(PROBES);
    CONSTANT(MOST_CONNECTIONS);
    CONSTANT(MOST_OF_SESSION);
    CONSTANT(LEAST_TOKEN);
    CONSTANT(MOST_TOKEN);
    CONSTANT(NONCE_BYTES);
    CONSTANT(MOST_BYTES);
    CONSTANT(MOST_TEXT);
    CONSTANT(DIGEST_CHARACTERS);
    CONSTANT(MOST_TIMEOUT_MS);
    CONSTANT(MOST_INDEX);
    CONSTANT(MOST_ARGUMENT);
    CONSTANT(MOST_OBJECTS);
    CONSTANT(MOST_UPLOADS);
    CONSTANT(DEVICE_ERROR);
    CONSTANT(MEMORY_ERROR);
    CONSTANT(XCLBIN_ERROR);
    CONSTANT(INTERNAL_ERROR);
    CONSTANT(NORMAL);
    CONSTANT(DEVICE_ONLY);
#undef CONSTANT
    nb::list operations;
#define OPERATION(name) operations.append(#name);
    CARD_OPERATIONS(OPERATION)
#undef OPERATION
    constants.attr("OPERATIONS") = nb::tuple(operations);
}
