# libxrt_coreutil expects of a driver not only xrt.h's C functions but also C++ classes whose headers are not installed.
# Four objects of the static sw_emu driver define those on top of the C functions; what else they refer to, of AI
# engines and profiling, is stubbed. This ties the library to the release of XRT that it is built with.
find_library(XRT_SWEMU_ARCHIVE libxrt_swemu.a HINTS ${xrt_libraries})
find_library(BOOST_FILESYSTEM NAMES boost_filesystem libboost_filesystem.so.1.74.0)
file(STRINGS ${XRT_INCLUDE}/version.h xrt_version REGEX "xrt_build_version\\[\\]")
if(NOT XRT_SWEMU_ARCHIVE OR NOT BOOST_FILESYSTEM OR NOT xrt_version MATCHES "\"2\\.13\\.")
    message(STATUS "XRT's static sw_emu driver of release 2.13 not found: emulation inside of the process is left out")
    return()
endif()

set(archive_objects device_pcie.cpp.o system_pcie.cpp.o device_swemu.cxx.o system_swemu.cxx.o)
set(archive_directory ${CMAKE_CURRENT_BINARY_DIR}/swemu)
file(MAKE_DIRECTORY ${archive_directory})
execute_process(COMMAND ${CMAKE_AR} x ${XRT_SWEMU_ARCHIVE} ${archive_objects}
    WORKING_DIRECTORY ${archive_directory} COMMAND_ERROR_IS_FATAL ANY)
list(TRANSFORM archive_objects PREPEND ${archive_directory}/)
execute_process(COMMAND ${CMAKE_NM} --undefined-only ${archive_objects}
    OUTPUT_VARIABLE undefined COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " _Z[A-Za-z0-9_]*xcl[A-Za-z0-9_]*" missing "${undefined}")
list(REMOVE_DUPLICATES missing)
set(stubs)
foreach(symbol IN LISTS missing)
    string(STRIP ${symbol} symbol)
    if(NOT symbol MATCHES "handleCheck|deviceQuery|xclCloseExportHandle")  # hal.cpp has these
        list(APPEND stubs "-Wl,--defsym=${symbol}=fpga_dynamo_not_supported")
    endif()
endforeach()

add_library(xrt_fpga_dynamo MODULE ${CMAKE_CURRENT_SOURCE_DIR}/hal/hal.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/hal/hal_card.cpp ${archive_objects})
set_target_properties(xrt_fpga_dynamo PROPERTIES PREFIX lib SUFFIX .so.2 CXX_VISIBILITY_PRESET hidden)
target_include_directories(xrt_fpga_dynamo PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(xrt_fpga_dynamo PRIVATE -Wall -Wextra)
target_link_libraries(xrt_fpga_dynamo PRIVATE
    fpga_card xrt_headers ${XRT_COREUTIL} ${BOOST_FILESYSTEM} ${UUID_LIBRARY})
target_link_options(xrt_fpga_dynamo PRIVATE ${stubs} -Wl,-z,defs)
install(TARGETS xrt_fpga_dynamo LIBRARY DESTINATION fpga_dynamo/xrt_lib)

include(${CMAKE_CURRENT_SOURCE_DIR}/sw_emu_driver/sw_emu_driver.cmake)
