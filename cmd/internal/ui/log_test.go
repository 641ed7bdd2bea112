package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// logged is what a logger of a format writes.
func logged(t *testing.T, format string, say func(*slog.Logger)) string {
	t.Helper()
	var out bytes.Buffer
	l, err := NewLogger(&out, format, slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	say(l)
	return out.String()
}

// TestLinesOfJSONCarryIDs: at the top level, also below a group; none without
// an action, and no initial id before one is known. Text has none.
func TestLinesOfJSONCarryIDs(t *testing.T) {
	now, err := trace.ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		t.Fatal(err)
	}
	ctx := carry.With(t.Context(), now)
	for name, c := range map[string]struct {
		say  func(*slog.Logger)
		want string // of the ids: trace, span and initial, or nothing
	}{
		"an action":        {func(l *slog.Logger) { l.InfoContext(ctx, "sealed") }, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 <nil>"},
		"of a known life":  {func(l *slog.Logger) { l.InfoContext(carry.WithInitial(ctx, now.Trace), "sealed") }, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 0af7651916cd43dd8448eb211c80319c"},
		"none":             {func(l *slog.Logger) { l.InfoContext(t.Context(), "sealed") }, "<nil> <nil> <nil>"},
		"below a group":    {func(l *slog.Logger) { l.With("a", 1).WithGroup("g").With("b", 2).InfoContext(ctx, "sealed", "c", 3) }, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 <nil>"},
		"beside its state": {func(l *slog.Logger) { l.With("a", 1).InfoContext(ctx, "sealed") }, "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			out := logged(t, "json", c.say)
			var line map[string]any
			if err := json.Unmarshal([]byte(out), &line); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			got := strings.Join([]string{show(line[trace.LogTrace]), show(line[trace.LogSpan]), show(line[trace.LogInitial])}, " ")
			if got != c.want || line["msg"] != "sealed" || strings.Contains(name, "group") && !strings.Contains(out, `"g":{"b":2,"c":3}`) {
				t.Errorf("%s", out)
			}
			if text := logged(t, "text", c.say); strings.Contains(text, "0af7") {
				t.Errorf("text has ids: %q", text)
			}
		})
	}
}

func show(v any) string {
	if text, is := v.(string); is {
		return text
	}
	return "<nil>"
}

// TestSecretsStayOut: wherever in a line one stands, of both formats.
func TestSecretsStayOut(t *testing.T) {
	const canary = "hunter2hunter2"
	url := "https://ci:" + canary + "@host.example.test/x"
	for name, say := range map[string]func(*slog.Logger){
		"message": func(l *slog.Logger) { l.Info("cloning " + url) },
		"text":    func(l *slog.Logger) { l.Info("cloning", "from", url) },
		"error":   func(l *slog.Logger) { l.Info("cloning", "error", errors.New("GET "+url)) },
		"struct":  func(l *slog.Logger) { l.Info("cloning", "of", struct{ URL string }{url}) },
		"list":    func(l *slog.Logger) { l.Info("cloning", "args", []string{"clone", url}) },
		"group":   func(l *slog.Logger) { l.Info("cloning", slog.Group("g", "from", url)) },
		"with":    func(l *slog.Logger) { l.With("from", url).Info("cloning") },
		"bytes":   func(l *slog.Logger) { l.Info("header", "h", "Authorization: Bearer "+canary) },
	} {
		for _, format := range []string{"text", "json"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				if out := logged(t, format, say); strings.Contains(out, canary) || !strings.Contains(out, "[redacted]") {
					t.Errorf("%q", out)
				}
			})
		}
	}
}

// TestForeignTextIsEscaped: no line moves a cursor, hides a text or turns its
// direction, and JSON gives back what was said.
func TestForeignTextIsEscaped(t *testing.T) {
	const foreign = "a\x1b[31mb\u009b2Jc\u202edlrow\u2066e\u200bf\u2028g\r\nh\x7f\U000e0041\u00adi"
	for _, format := range []string{"text", "json"} {
		out := logged(t, format, func(l *slog.Logger) { l.Info(foreign, "key", foreign) })
		if i := strings.IndexFunc(strings.TrimSuffix(out, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Errorf("%s: %q at %d", format, out, i)
		}
		var line struct{ Msg, Key string }
		if format == "json" && (json.Unmarshal([]byte(out), &line) != nil || line.Msg != foreign || line.Key != foreign) {
			t.Errorf("%q is read as %q", out, line)
		}
	}
}

// TestLines: what was written as text becomes lines, whatever it was cut into.
func TestLines(t *testing.T) {
	var said []string
	l := NewLines(func(line string) { said = append(said, line) })
	for _, part := range []string{"one", " and\ntwo\n\n", "\n", "three"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.Flush()
	if got := strings.Join(said, "|"); got != "one and|two|three" {
		t.Errorf("%q", got)
	}
}

// TestNewLogger: there are two formats.
func TestNewLogger(t *testing.T) {
	if _, err := NewLogger(&bytes.Buffer{}, "xml", slog.LevelInfo); err == nil {
		t.Error("a format that is none is taken")
	}
}
