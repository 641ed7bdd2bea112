package serve

import (
	"fmt"
	"io"
	"runtime"
)

// process writes metrics of the process, with the names that dashboards for Go
// programs use.
func process(w io.Writer) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	one := func(name, help string, value uint64) {
		WriteMetric(w, Metric{name, "gauge", help, ""}, map[string]uint64{"": value})
	}
	one("go_goroutines", "Number of goroutines that currently exist.", uint64(runtime.NumGoroutine()))
	one("go_memstats_heap_alloc_bytes", "Bytes of the heap that are in use, or not swept yet.", m.HeapAlloc)
	one("go_memstats_sys_bytes", "Bytes obtained from the system.", m.Sys)
}

// ratio is a percentage, for people.
func ratio(part, all int64) string {
	if all == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(all))
}
