package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// Metrics serves metrics, with those of the process, at HOST:PORT until ctx ends. It
// returns the address, and reports on the log if serving fails later.
func Metrics(ctx context.Context, address string, log *slog.Logger, write func(io.Writer)) (string, error) {
	l, err := listen(address)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /metrics", measured(write))
	s := bounded(ctx, mux, log)
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() {
		if err := s.Serve(l); ctx.Err() == nil {
			log.ErrorContext(ctx, "metrics are not served any more", "error", err.Error())
		}
	}()
	return l.Addr().String(), nil
}

// measured answers GET /metrics in the text format of Prometheus.
func measured(write func(io.Writer)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var all bytes.Buffer // rendered to memory first: a slow reader blocks no decision
		write(&all)
		process(&all)
		_, _ = w.Write(all.Bytes())
	}
}

// Head writes what a metric means, before its values.
func Head(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %[1]s %[3]s\n# TYPE %[1]s %[2]s\n", name, kind, help)
}
