extern "C" void totals(const int* in, int n, int& sum, int& largest) {
    int total = 0, most = in[0];
    for (int i = 0; i < n; i++) {
        total += in[i];
        if (in[i] > most) most = in[i];
    }
    sum = total;
    largest = most;
}
