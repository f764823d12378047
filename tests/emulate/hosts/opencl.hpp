// OpenCL as Vitis' host programs use it, with XRT's binaries.
#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// Adds two vectors on the card that the platform "Xilinx" has; 0 if all sums are right.
inline int add_by_opencl(const std::string& file) {
    constexpr int COUNT = 1024;
    constexpr size_t BYTES = COUNT * sizeof(int);
    cl_platform_id platform{};
    cl_device_id device{};
    char name[64] = "";
    clGetPlatformIDs(1, &platform, nullptr);
    if (platform) clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, nullptr);
    std::printf("platform %s\n", name);
    cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ACCELERATOR, 1, &device, nullptr);
    if (error) return 10;
    cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    std::ifstream stream(file, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(stream)), {});
    const auto* bytes = reinterpret_cast<const unsigned char*>(content.data());
    const size_t size = content.size();
    cl_program program = clCreateProgramWithBinary(context, 1, &device, &size, &bytes, nullptr, &error);
    if (error) return 11;
    cl_kernel kernel = clCreateKernel(program, "add", &error);
    if (error) return 12;
    std::vector<int> a(COUNT), b(COUNT), sums(COUNT);
    for (int i = 0; i < COUNT; i++) a[i] = i, b[i] = 3 * i;
    cl_mem buffers[3] = {};
    for (cl_uint i = 0; i < 3; i++) {
        buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, nullptr, &error);
        clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]);
    }
    clSetKernelArg(kernel, 3, sizeof COUNT, &COUNT);
    clEnqueueWriteBuffer(queue, buffers[0], CL_TRUE, 0, BYTES, a.data(), 0, nullptr, nullptr);
    clEnqueueWriteBuffer(queue, buffers[1], CL_TRUE, 0, BYTES, b.data(), 0, nullptr, nullptr);
    if (clEnqueueTask(queue, kernel, 0, nullptr, nullptr)) return 13;
    clFinish(queue);
    clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, BYTES, sums.data(), 0, nullptr, nullptr);
    for (int i = 0; i < COUNT; i++)
        if (sums[i] != 4 * i) return 14;
    for (cl_mem each : buffers) clReleaseMemObject(each);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    std::printf("sums right\n");
    return 0;
}
