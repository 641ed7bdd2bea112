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

// NewLogger makes the logger of a command: readable text, or JSON lines with
// the ids of the action that their context carries. Secrets are taken out of
// both, and foreign text can do nothing to a terminal that shows them.
func NewLogger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(&textHandler{w: w, mu: &sync.Mutex{}}), nil
	case "json":
		lines := slog.NewJSONHandler(escaping{w}, &slog.HandlerOptions{ReplaceAttr: withoutSecrets})
		return slog.New(contextHandler{base: lines, whole: lines}), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}

// withoutSecrets redacts the value of an attribute, whatever its kind. Values
// of kinds that slog does not know are told as text: a struct may hold anything.
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

// contextHandler adds the ids of the context's action to every line, at the top
// level, whatever groups a logger has opened.
type contextHandler struct {
	base    slog.Handler                      // without what follows
	whole   slog.Handler                      // with it
	since   []func(slog.Handler) slog.Handler // a logger's attributes and groups, in order
	grouped bool
}

// Enabled asks the handler beneath.
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

// idsOf names the ids that are known.
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

// WithAttrs keeps the context's part.
func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup keeps the context's part above the group.
func (h contextHandler) WithGroup(name string) slog.Handler {
	h.grouped = h.grouped || name != ""
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h contextHandler) with(add func(slog.Handler) slog.Handler) slog.Handler {
	h.since = append(h.since[:len(h.since):len(h.since)], add)
	h.whole = add(h.whole)
	return h
}

// escaping writes lines of JSON in which no character is left that a terminal
// obeys or hides: JSON itself escapes no controls past ASCII, and no marks that
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

// textHandler prints the message for a person, made harmless.
type textHandler struct {
	w     io.Writer
	mu    *sync.Mutex // guards w, for all loggers that were derived from one
	attrs []slog.Attr
}

// Enabled lets everything from info on through.
func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

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

// WithAttrs returns a handler that prints them on every line.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &textHandler{w: h.w, mu: h.mu, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup has no form in text.
func (h *textHandler) WithGroup(string) slog.Handler { return h }

// Lines is a writer for those who speak in text to one who reads lines of a
// log: each line of text becomes one.
type Lines struct {
	say func(line string)

	mu   sync.Mutex // owns rest
	rest []byte     // a line that has not ended
}

// NewLines makes it. A line is said without its end.
func NewLines(say func(line string)) *Lines { return &Lines{say: say} }

// Write says the lines that have ended.
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

// Flush says what has not ended.
func (l *Lines) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell(l.rest)
	l.rest = nil
}

// tell says a line, unless it is empty. The caller holds the mutex.
func (l *Lines) tell(line []byte) {
	if text := strings.TrimSpace(string(line)); text != "" {
		l.say(text)
	}
}

// Redacting is a writer of text for people that takes secrets out of what
// passes. It is the terminal that w is.
func Redacting(w io.Writer) io.Writer {
	if f, is := w.(terminal); is {
		return redactingTerminal{redacting{w}, f}
	}
	return redacting{w}
}

type redacting struct{ w io.Writer }

// Write passes on what is no secret.
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

// Fd is the descriptor that is written to.
func (r redactingTerminal) Fd() uintptr { return r.f.Fd() }
