# XRT's own sw_emu driver, linked once more from its static library, for programs that know nothing of fpga_dynamo. Functions
# are replaced where the driver lacks something (states of failed runs, time-outs of waits) or is wrong. The device model
# stays a process of its own.
find_library(PROTOBUF NAMES protobuf libprotobuf.so.32)
if(NOT PROTOBUF)
    message(STATUS "libprotobuf not found: the sw_emu driver for other host programs is left out")
    return()
endif()

set(driver_directory ${CMAKE_CURRENT_BINARY_DIR}/sw_emu_driver)
file(MAKE_DIRECTORY ${driver_directory})
execute_process(COMMAND ${CMAKE_AR} x ${XRT_SWEMU_ARCHIVE}
    WORKING_DIRECTORY ${driver_directory} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB driver_objects ${driver_directory}/*.o)

# What this library defines instead; the driver's own function has another name, so that OpenCL finds this one, too.
set(renamed)
foreach(function
        xclOpen xclClose xclAllocBO xclCopyBO xclExecBuf xclExecWait xclExportBO xclLoadXclBin xclMapBO xclUnmapBO)
    list(APPEND renamed --redefine-sym ${function}=xrt_${function})
endforeach()
execute_process(COMMAND ${CMAKE_OBJCOPY} ${renamed} ${driver_directory}/halapi.cxx.o COMMAND_ERROR_IS_FATAL ANY)

# Calls of libraries that library_calls.cpp answers.
set(renamed --redefine-sym _ZN6google8protobuf23ShutdownProtobufLibraryEv=driver_shut_protobuf_down)
foreach(function malloc realloc read write sigaction sleep waitpid)
    list(APPEND renamed --redefine-sym ${function}=driver_${function})
endforeach()
foreach(object shim unix_socket)
    execute_process(COMMAND ${CMAKE_OBJCOPY} ${renamed} ${driver_directory}/${object}.cxx.o
        COMMAND_ERROR_IS_FATAL ANY)
endforeach()

add_library(xrt_fpga_dynamo_sw_emu MODULE ${CMAKE_CURRENT_SOURCE_DIR}/sw_emu_driver/entry_points.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/sw_emu_driver/library_calls.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/sw_emu_driver/runs.cpp ${driver_objects})
set_target_properties(xrt_fpga_dynamo_sw_emu PROPERTIES PREFIX lib SUFFIX .so.2)
target_compile_options(xrt_fpga_dynamo_sw_emu PRIVATE -Wall -Wextra)
target_include_directories(xrt_fpga_dynamo_sw_emu PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/model)
target_link_libraries(xrt_fpga_dynamo_sw_emu PRIVATE xrt_headers Threads::Threads
    ${XRT_COREUTIL} ${BOOST_FILESYSTEM} ${PROTOBUF} ${UUID_LIBRARY})
target_link_options(xrt_fpga_dynamo_sw_emu PRIVATE -Wl,-Bsymbolic -Wl,-z,defs)
install(TARGETS xrt_fpga_dynamo_sw_emu LIBRARY DESTINATION fpga_dynamo/xrt_lib)
