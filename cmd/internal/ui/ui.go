// Package ui holds the rules of the terminal:
//
//   - stdout is the answer, stderr is the conversation;
//   - a line of conversation says what is happening and with how much;
//   - nothing blinks, nothing is redrawn unless stderr is a terminal;
//   - with --log-format json, each line is one JSON object with the run's id.
package ui

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/render"
)

// runKey carries the id of a run through a context.
type runKey struct{}

// WithRun returns a context whose log lines carry the id of a run.
func WithRun(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, runKey{}, id)
}

// NewLogger makes the logger of a command: readable text or JSON lines.
func NewLogger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(&textHandler{w: w}), nil
	case "json":
		return slog.New(contextHandler{slog.NewJSONHandler(w, nil)}), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}

// contextHandler adds what the context knows to every line.
type contextHandler struct{ slog.Handler }

// Handle adds the run's id.
func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if id, ok := ctx.Value(runKey{}).(string); ok {
		r.AddAttrs(slog.String("run_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the context's part.
func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the context's part.
func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}

// textHandler prints the message for a person, made harmless.
type textHandler struct {
	w     io.Writer
	mu    sync.Mutex // guards w
	attrs []slog.Attr
}

// Enabled lets everything from info on through.
func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle prints one line.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	line := render.Safe(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line += " " + render.Safe(a.String())
		return true
	})
	for _, a := range h.attrs {
		line += " " + render.Safe(a.String())
	}
	_, err := fmt.Fprintln(h.w, line)
	return err
}

// WithAttrs returns a handler that prints them on every line.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &textHandler{w: h.w, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup has no form in text.
func (h *textHandler) WithGroup(string) slog.Handler { return h }

// Progress redraws one line on a terminal with how far a long read has come.
type Progress struct {
	w     io.Writer
	verb  string
	clock func() time.Time
	mu    sync.Mutex // guards began, last and w
	began time.Time
	last  time.Time
}

// Far is how far it has come.
type Far struct {
	Bytes, OfBytes int64
	Files, OfFiles int
}

// NewProgress makes a progress line on w, which must be a terminal.
func NewProgress(w io.Writer, verb string) *Progress {
	return &Progress{w: w, verb: verb, clock: time.Now}
}

// Update shows it, at most ten times a second, with the time that the rest will
// take if it goes on like that. At the end the line is gone.
func (p *Progress) Update(f Far) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if p.began.IsZero() {
		p.began = now
	}
	switch {
	case f.Files >= f.OfFiles:
		fmt.Fprint(p.w, "\r\x1b[K")
	case now.Sub(p.last) >= 100*time.Millisecond:
		p.last = now
		fmt.Fprintf(p.w, "\r%s %d of %d files, %s of %s%s\x1b[K", p.verb, f.Files, f.OfFiles, Bytes(f.Bytes), Bytes(f.OfBytes), left(f, now.Sub(p.began)))
	}
}

// left says how long the rest will take, once that can be told.
func left(f Far, since time.Duration) string {
	if since < time.Second || f.Bytes <= 0 || f.Bytes >= f.OfBytes {
		return ""
	}
	rest := time.Duration(float64(since) * float64(f.OfBytes-f.Bytes) / float64(f.Bytes))
	return fmt.Sprintf(", %s left", rest.Round(time.Second))
}

// Bytes prints a size for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, exp := float64(n)/unit, 0
	for value >= unit && exp < 4 {
		value /= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}
