package pipeline

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestTokenThatRunsOut: a token file whose token has expired is refused at the
// beginning, and waited for once there is something to lose, for as long as
// there is patience.
func TestTokenThatRunsOut(t *testing.T) {
	for name, row := range map[string]struct {
		begun   bool
		life    time.Duration // of the token that is there
		renewed int           // after so many pauses there is a fresh one; 0: never
		pauses  int
		code    verdict.Code
	}{
		"alive":                        {false, time.Minute, 0, 0, ""},
		"dead at the beginning":        {false, -time.Minute, 3, 0, verdict.TokenRefused},
		"dead later, and renewed":      {true, -time.Minute, 3, 3, ""},
		"dead later, and never":        {true, -time.Minute, 0, 30, verdict.TokenRefused},
		"alive later":                  {true, time.Minute, 0, 0, ""},
		"gone at the beginning":        {false, 0, 3, 0, verdict.Usage},
		"gone later, and there again":  {true, 0, 2, 2, ""},
		"dead later, renewed too late": {true, -time.Minute, 40, 30, verdict.TokenRefused},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_000_000, 0)
			path := filepath.Join(t.TempDir(), "release.token")
			put := func(life time.Duration) {
				said := fmt.Appendf(nil, `{"exp":%d}`, now.Add(life).Unix())
				text := "e30." + base64.RawURLEncoding.EncodeToString(said) + ".c2ln"
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if row.life != 0 {
				put(row.life)
			}
			pauses, told := 0, ""
			r := &renewed{File: token.File(path), begun: row.begun, clock: func() time.Time { return now }, work: sign.Work{
				Patience: time.Minute,
				Report:   func(_ context.Context, format string, args ...any) { told += fmt.Sprintf(format, args...) + "\n" },
				Pause: func(_ context.Context, d time.Duration) error {
					now = now.Add(d)
					if pauses++; pauses == row.renewed {
						put(time.Minute)
					}
					return nil
				},
			}}
			text, err := r.Token(t.Context())
			if (row.code == "") != (err == nil) || err != nil && verdict.FindingOf("", err).Code != row.code || (text == "") != (err != nil) {
				t.Errorf("%q, %v, want %s", text, err, row.code)
			}
			if pauses != row.pauses || (pauses > 0) != strings.Contains(told, "waiting for a fresh token in "+path) {
				t.Errorf("%d pauses, told %q", pauses, told)
			}
			if lines := strings.Count(told, "\n"); lines > 2 {
				t.Errorf("told %d times in a minute", lines)
			}
		})
	}
}

// TestWaitingForATokenEnds: who interrupts is not kept waiting.
func TestWaitingForATokenEnds(t *testing.T) {
	stop := errors.New("stop")
	r := &renewed{File: token.File(filepath.Join(t.TempDir(), "none")), begun: true, clock: time.Now, work: sign.Work{
		Patience: time.Hour, Report: func(context.Context, string, ...any) {}, Pause: func(context.Context, time.Duration) error { return stop },
	}}
	if _, err := r.Token(t.Context()); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestAgain: a command that is told can be pasted, whatever is in it.
func TestAgain(t *testing.T) {
	for line, typed := range map[string]Typed{
		"waybill sign v0.1.0 --state state/a":           {Args: []string{"waybill", "sign", "v0.1.0", "--state", "state/a"}, Dir: "/here"},
		"cd '/the r'\\''s' && waybill sign v0.1.0":      {Args: []string{"waybill", "sign", "v0.1.0"}, Dir: "/the r's"},
		"waybill 'a b' '' '$(x)' '*' 'a;b' 'it'\\''s'":  {Args: []string{"waybill", "a b", "", "$(x)", "*", "a;b", "it's"}},
		"cd /there && waybill --source git+file:///a@b": {Args: []string{"waybill", "--source", "git+file:///a@b"}, Dir: "/there"},
	} {
		if got := rerun(typed, "/here"); got != line {
			t.Errorf("%s\nwant %s", got, line)
		}
	}
}
