# The process that XRT's sw_emu driver starts.
add_executable(genericpciemodel
    ${CMAKE_CURRENT_SOURCE_DIR}/model/main.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/model/model_card.cpp
    ${CMAKE_CURRENT_SOURCE_DIR}/model/wire.cpp)
target_compile_options(genericpciemodel PRIVATE -Wall -Wextra)
target_link_libraries(genericpciemodel PRIVATE fpga_card)
install(TARGETS genericpciemodel RUNTIME DESTINATION fpga_dynamo/xrt_lib)
