package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
)

// Metric is what Prometheus is told of a metric, before its values. Without a label there
// is one value.
type Metric struct{ Name, Kind, Help, Label string }

// WriteMetric writes a metric and its values, by the value of its label.
func WriteMetric[K ~string, V int64 | uint64 | float64](w io.Writer, m Metric, values map[K]V) {
	fmt.Fprintf(w, "# HELP %[1]s %[3]s\n# TYPE %[1]s %[2]s\n", m.Name, m.Kind, m.Help)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if m.Label != "" {
			fmt.Fprintf(w, "%s{%s=%q} %v\n", m.Name, m.Label, string(k), values[k])
		} else {
			fmt.Fprintf(w, "%s %v\n", m.Name, values[k])
		}
	}
}

// Metrics serves metrics, with those of the process, at HOST:PORT until ctx ends. It
// returns the address.
func Metrics(ctx context.Context, address string, log *slog.Logger, write func(io.Writer)) (string, error) {
	l, err := listen(address)
	if err != nil {
		return "", err
	}
	s := (&Server{world: &World{Log: log}}).bounded(ctx, measured(write))
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), nil
}

// measured answers GET /metrics in the text format of Prometheus.
func measured(write func(io.Writer)) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var all bytes.Buffer // rendered to memory first: a slow reader blocks no decision
		write(&all)
		process(&all)
		_, _ = w.Write(all.Bytes())
	})
	return mux
}

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
