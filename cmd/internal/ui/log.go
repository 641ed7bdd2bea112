package ui

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// NewLogger makes the logger of a command: readable text, or JSON lines with the
// trace ids of their context. Secrets are redacted in both, and control characters
// in foreign text are escaped. Lines below a level are left out.
func NewLogger(w io.Writer, format string, least slog.Level) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(&textHandler{w: w, mu: &sync.Mutex{}, least: least}), nil
	case "json":
		lines := slog.NewJSONHandler(escaping{w}, &slog.HandlerOptions{Level: least, ReplaceAttr: withoutSecrets})
		return slog.New(contextHandler{base: lines, whole: lines}), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}

// withoutSecrets redacts the value of an attribute. A value of a kind that slog
// does not know is converted to text first: a struct may contain secrets.
func withoutSecrets(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(redact.Secrets(v.String()))
	case slog.KindAny:
		if _, is := v.Any().(slog.Level); !is && v.Any() != nil {
			a.Value = slog.StringValue(redact.Secrets(fmt.Sprint(v.Any())))
		}
	}
	return a
}

// contextHandler adds the trace ids of the context to every line, at the top
// level even inside of the groups that a logger has opened.
type contextHandler struct {
	base    slog.Handler                      // without the attributes and groups in since
	whole   slog.Handler                      // with them
	since   []func(slog.Handler) slog.Handler // a logger's attributes and groups, in order
	grouped bool
}

// Enabled asks the wrapped handler.
func (h contextHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.base.Enabled(ctx, l)
}

// Handle adds the ids.
func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	ids := idsOf(carry.Line(ctx))
	switch {
	case len(ids) == 0:
		return h.whole.Handle(ctx, r)
	case !h.grouped:
		r = r.Clone()
		r.AddAttrs(ids...)
		return h.whole.Handle(ctx, r)
	}
	to := h.base.WithAttrs(ids)
	for _, add := range h.since {
		to = add(to)
	}
	return to.Handle(ctx, r)
}

// idsOf returns the ids of a trace context as attributes.
func idsOf(now trace.Context) (ids []slog.Attr) {
	if now.IsZero() {
		return nil
	}
	ids = []slog.Attr{slog.String(trace.LogTrace, now.Trace.String()), slog.String(trace.LogSpan, now.Span.String())}
	if !now.Initial.IsZero() {
		ids = append(ids, slog.String(trace.LogInitial, now.Initial.String()))
	}
	return ids
}

// WithAttrs adds attributes; the trace ids stay at the top level.
func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup opens a group; the trace ids stay above it.
func (h contextHandler) WithGroup(name string) slog.Handler {
	h.grouped = h.grouped || name != ""
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h contextHandler) with(add func(slog.Handler) slog.Handler) slog.Handler {
	h.since = append(h.since[:len(h.since):len(h.since)], add)
	h.whole = add(h.whole)
	return h
}

// escaping writes lines of JSON without control characters and characters that a
// terminal hides: JSON itself escapes neither controls beyond ASCII nor marks that
// change the direction of text.
type escaping struct{ w io.Writer }

// Write writes whole lines, as a JSON handler makes them.
func (e escaping) Write(line []byte) (int, error) {
	if _, err := e.w.Write(escape(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func escape(line []byte) []byte {
	harmless := func(r rune) bool { return r == '\n' || r == ' ' || unicode.IsPrint(r) }
	if bytes.IndexFunc(line, func(r rune) bool { return !harmless(r) }) < 0 {
		return line
	}
	out := make([]byte, 0, len(line)+64)
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		switch {
		case harmless(r):
			out = append(out, line[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		line = line[n:]
	}
	return out
}

// textHandler prints lines for people, with control characters escaped.
type textHandler struct {
	w     io.Writer
	mu    *sync.Mutex // guards w, for all loggers that were derived from one
	attrs []slog.Attr
	least slog.Level
}

// Enabled reports whether lines of the level are printed.
func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.least }

// Handle prints one line.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	line := render.Safe(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line += " " + render.Safe(a.String())
		return true
	})
	for _, a := range h.attrs {
		line += " " + render.Safe(a.String())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.w, line)
	return err
}

// WithAttrs returns a handler that prints the attributes on every line.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &textHandler{w: h.w, mu: h.mu, least: h.least, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup does nothing: text has no groups.
func (h *textHandler) WithGroup(string) slog.Handler { return h }

// Lines is a writer that turns each line of text into one line of a log.
type Lines struct {
	say func(line string) // logs one line

	mu   sync.Mutex // owns rest
	rest []byte     // the beginning of a line that has not ended
}

// NewLines makes a writer that calls say with each line, without its newline.
func NewLines(say func(line string)) *Lines { return &Lines{say: say} }

// Write logs the lines that are complete.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		l.tell(line)
		l.rest = rest
	}
}

// Flush logs the last line, if it has no newline.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(l.rest)
	l.rest = nil
}

// tell logs a line, unless it is empty. The caller holds the mutex.
func (l *Lines) tell(line []byte) {
	if text := strings.TrimSpace(string(line)); text != "" {
		l.say(text)
	}
}

// Redacting is a writer that redacts secrets in text for people. If w is a
// terminal, so is the result.
func Redacting(w io.Writer) io.Writer {
	if f, is := w.(terminal); is {
		return redactingTerminal{redacting{w}, f}
	}
	return redacting{w}
}

type redacting struct{ w io.Writer }

// Write writes p without its secrets.
func (r redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.w, redact.Secrets(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// redactingTerminal can be asked whether it is a terminal, and how wide.
type redactingTerminal struct {
	redacting
	f terminal
}

// Fd is the file descriptor of the terminal.
func (r redactingTerminal) Fd() uintptr { return r.f.Fd() }
