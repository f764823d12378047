extern "C" void add(const int* a, const int* b, int* out, int count) {
    for (int i = 0; i < count; i++) out[i] = a[i] + b[i];
}
