extern "C" void again(int a, int b, int& sum, int& product, int& runs) {
    static int count = 0;
    sum = a + b;
    product = a * b;
    runs = ++count;
}
