/* Of three equal pieces of work, two are called through `twice`. */
static volatile long sum;

__attribute__((noinline)) static long work(void) {
    for (long i = 0; i < 3000000; i++) sum += i;
    return sum;
}

__attribute__((noinline)) static long twice(void) { return work() + work(); }

int main(void) {
    long all = 0;
    for (int i = 0; i < 100; i++) all += work() + twice();
    return all == 1;
}
