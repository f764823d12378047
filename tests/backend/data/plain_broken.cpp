// A kernel that no compiler accepts.
extern "C" void broken(const float* a, float* out, int n) { undeclared(a, out, n); }
