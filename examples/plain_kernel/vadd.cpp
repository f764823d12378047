// A plain Vitis HLS kernel: out = a + b. Nothing in it knows of fpga_dynamo.
extern "C" void vadd(const float* a, const float* b, float* out, int count) {
#pragma HLS INTERFACE m_axi port=a offset=slave bundle=gmem0
#pragma HLS INTERFACE m_axi port=b offset=slave bundle=gmem1
#pragma HLS INTERFACE m_axi port=out offset=slave bundle=gmem0
#pragma HLS INTERFACE s_axilite port=a bundle=control
#pragma HLS INTERFACE s_axilite port=b bundle=control
#pragma HLS INTERFACE s_axilite port=out bundle=control
#pragma HLS INTERFACE s_axilite port=count bundle=control
#pragma HLS INTERFACE s_axilite port=return bundle=control
add_elements:
    for (int i = 0; i < count; i++) {
#pragma HLS loop_tripcount min=1024 max=1048576
#pragma HLS pipeline II=1
        out[i] = a[i] + b[i];
    }
}
