# The module _xrt.
set(binding ${CMAKE_CURRENT_SOURCE_DIR}/binding)
# A domain of its own: _native has types of the same names.
nanobind_add_module(_xrt NB_STATIC NB_DOMAIN fpga_dynamo_xrt
    ${binding}/bind_buffer.cpp
    ${binding}/bind_device.cpp
    ${binding}/bind_kernel.cpp
    ${binding}/emulation.cpp
    ${binding}/completion.cpp
    ${binding}/errors.cpp
    ${binding}/module.cpp
    ${binding}/relay.cpp
    ${binding}/running.cpp
    ${native}/binding/interpreter.cpp)
target_include_directories(_xrt PRIVATE ${native}/binding ${native}/rt ${CMAKE_CURRENT_SOURCE_DIR}/model)
target_compile_definitions(_xrt PRIVATE XRT_LIBRARY_DIRECTORY="${xrt_libraries}")
target_link_libraries(_xrt PRIVATE fpga_card xrt_headers ${XRT_COREUTIL} ${UUID_LIBRARY})
set_target_properties(_xrt PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS _xrt LIBRARY DESTINATION fpga_dynamo)
