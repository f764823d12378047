// Of the conformance suite: how often the compute unit has run, by variables of every kind that outlive a run.
int runs = 0;
static int own_runs = 0;

inline int& runs_in_a_header() {
    static int count = 0;
    return count;
}

template <class T>
struct counter {
    static T count;
};
template <class T>
T counter<T>::count = 0;

extern "C" void counts(int* out) {
    static int local_runs = 0;
    out[0] = ++runs;
    out[1] = ++own_runs;
    out[2] = ++runs_in_a_header();
    out[3] = ++counter<int>::count;
    out[4] = ++local_runs;
}
