package command

/*
#include <sys/prctl.h>

// Go's monitor thread wakes up to every 20 µs while threads are in system calls or in DuckDB, which took 4 % of
// the CPU time of a run. With this slack it sleeps for a millisecond; timers may be that late. The slack is set
// before Go starts: a thread inherits it from the one that created it, and only root may set it for others.
__attribute__((constructor)) static void set_timer_slack(void) {
	prctl(PR_SET_TIMERSLACK, 1000000, 0, 0, 0);
}
*/
import "C"
