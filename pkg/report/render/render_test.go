package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// proofs are what an acceptance rests on.
func proofs() []verdict.Proof {
	return []verdict.Proof{{
		Subject: "LICENSE", Statement: "blob", Role: "release", Identity: "release@example.test", Issuer: "https://issuer.example.test",
		SignedAt: noon(), LogIndex: 7, Bundle: digest.Of(digest.SHA256, []byte("x")),
	}}
}

// refusedRelease is a verdict in which every field says something.
func refusedRelease() *verdict.Verdict {
	d := digest.Of(digest.SHA256, []byte("x"))
	v := verdict.New("release lantern v0.1.0 at file:///r", noon())
	v.Counts = verdict.Counts{Verified: 2, Required: 4}
	v.Scope = verdict.Scope{Checks: []string{"files"}}
	v.Add(
		verdict.Find(verdict.Tampered, "bin/lantern", "the bytes are not the ones that were signed").Differ("sha256:aa", "sha256:bb").Citing(d),
		verdict.Find(verdict.Extra, "bin/lantern-helper", "in the place, not listed in the manifest"),
		verdict.Find(verdict.Tampered, "LICENSE", "the bytes are not the ones that were signed").Differ("sha256:cc", "sha256:dd"),
	)
	v.Note("judged at noon")
	for i, statement := range []string{"https://slsa.dev/provenance/v1", "blob", "blob", "https://sigstore.dev/cosign/sign/v1", "https://example.test/x/release-manifest/v1", "https://example.test/other"} {
		v.Proofs = append(v.Proofs, verdict.Proof{
			Subject: fmt.Sprintf("s%d", i), Statement: statement, Role: "release", Identity: "release@example.test",
			Issuer: "https://issuer.example.test", SignedAt: noon(), LogIndex: int64(i), Bundle: d,
		})
	}
	v.Inputs = []verdict.Input{{Name: "files", Place: "file:///r"}}
	v.Policy, v.TrustRoot = d, d
	return v
}

// exceptedRelease is accepted with everything that a verdict can have set
// aside.
func exceptedRelease() *verdict.Verdict {
	d := digest.Of(digest.SHA256, []byte("x"))
	v := verdict.New("release lantern v0.1.0", noon())
	v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 3}, proofs()
	v.Add(
		verdict.Find(verdict.NoSBOM, "bin/lantern", "no SBOM is listed for it"),
		verdict.Find(verdict.Unsigned, "bin/lamp", "no signature"),
	)
	v.Findings[1].Known = &verdict.Known{ID: "late-signatures", Explanation: "it was signed after it was published", Source: "https://issues.example.test/7"}
	v.SetAside([]string{"bin/lantern", "bin/lamp"}, func(f verdict.Finding) (verdict.Waiver, bool) {
		if f.Code == verdict.Unsigned {
			return verdict.Waiver{
				Kind: verdict.ByDefect, ID: "late-signatures", Reason: "it was signed after it was published",
				By: "policy@example.test", Expires: noon().AddDate(0, 6, 0), Evidence: d,
			}, true
		}
		return verdict.Waiver{
			Kind: verdict.ByException, ID: d.String(), Reason: "the scanner was down on the day",
			By: "policy@example.test", Expires: noon().AddDate(0, 0, 3), Evidence: d,
		}, true
	})
	v.Warn(verdict.Find(verdict.Extra, "bin/helper", "in the place, not listed in the manifest"))
	v.Scope.Left = []string{"sha512"}
	return v
}

// TestEveryWaiverIsShown: findings are cut in the table, waivers never.
func TestEveryWaiverIsShown(t *testing.T) {
	v := verdict.New("q", noon())
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("file-%02d", i))
		v.Add(verdict.Find(verdict.NoSBOM, names[i], "none"))
	}
	v.SetAside(names, func(verdict.Finding) (verdict.Waiver, bool) {
		return verdict.Waiver{Kind: verdict.ByException, ID: "i", Reason: "r", By: "b"}, true
	})
	if got := strings.Count(write(t, render.Table, v), ", SET ASIDE"); got != 40 {
		t.Errorf("%d waivers are shown, want 40", got)
	}
}

func write(t testing.TB, f render.Format, v *verdict.Verdict) string {
	t.Helper()
	var b bytes.Buffer
	if err := render.Write(&b, f, *v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden compares forms with what they were. With WAYBILL_GOLDEN=write they
// are written anew, to be reviewed as a diff.
func TestGolden(t *testing.T) {
	accepted := verdict.New("release lantern v0.1.0", noon())
	accepted.Counts, accepted.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
	partial := verdict.New("release lantern v0.1.0", noon())
	partial.Counts, partial.Proofs, partial.Scope.Left = accepted.Counts, accepted.Proofs, []string{"sha512"}
	unsigned := verdict.New("file lantern", noon())
	unsigned.Counts, unsigned.Basis = accepted.Counts, verdict.InsecureUnsigned
	rows := []struct {
		golden string
		format render.Format
		v      *verdict.Verdict
	}{
		{"refused.txt", render.Table, refusedRelease()},
		{"refused.json", render.JSON, refusedRelease()},
		{"accepted.txt", render.Table, accepted},
		{"accepted.json", render.JSON, accepted},
		{"partial.txt", render.Table, partial},
		{"unsigned.txt", render.Table, unsigned},
		{"unsigned.json", render.JSON, unsigned},
		{"excepted.txt", render.Table, exceptedRelease()},
		{"excepted.json", render.JSON, exceptedRelease()},
		{"undecided.txt", render.Table, &verdict.Verdict{Question: "nothing"}},
	}
	for _, r := range rows {
		t.Run(r.golden, func(t *testing.T) {
			got := write(t, r.format, r.v)
			if os.Getenv("WAYBILL_GOLDEN") == "write" {
				if err := os.WriteFile("testdata/"+r.golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile("testdata/" + r.golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// TestJSONIsTheVerdict reads the document back: nothing is left out.
func TestJSONIsTheVerdict(t *testing.T) {
	var got, want map[string]any
	if err := json.Unmarshal([]byte(write(t, render.JSON, refusedRelease())), &got); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(refusedRelease())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	for field, value := range map[string]any{"schema": verdict.Schema, "outcome": "refused", "headline": refusedRelease().Headline()} {
		if got[field] != value {
			t.Errorf("%s is %v, want %v", field, got[field], value)
		}
		delete(got, field)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestListsAreCutInTheTableOnly(t *testing.T) {
	for n, want := range map[int]string{5: "", 6: "and 1 more; --verbose lists all", 40: "and 35 more; --verbose lists all"} {
		v := verdict.New("q", noon())
		for i := range n {
			v.Add(verdict.Find(verdict.Missing, fmt.Sprintf("file-%02d", i), "gone"))
		}
		page := write(t, render.Table, v)
		if got := strings.Count(page, "MISSING            file-"); got != 5 {
			t.Errorf("%d findings: %d are shown, want 5", n, got)
		}
		if !strings.Contains(page, want) || want == "" && strings.Contains(page, "--verbose") {
			t.Errorf("%d findings: want %q in\n%s", n, want, page)
		}
		if got := strings.Count(write(t, render.JSON, v), `"subject": "file-`); got != n {
			t.Errorf("%d findings: JSON has %d", n, got)
		}
	}
}

func TestSafe(t *testing.T) {
	const bad = "\uFFFD"
	rows := []struct{ name, text, want string }{
		{"plain", "bin/lantern v0.1.0", "bin/lantern v0.1.0"},
		{"letters of the world", "späte Äpfel 灯 🏮", "späte Äpfel 灯 🏮"},
		{"an escape sequence", "a\x1b[2Jb", "a" + bad + "[2Jb"},
		{"a line break", "a\nb\rc\td", "a" + bad + "b" + bad + "c" + bad + "d"},
		{"a bell and a delete", "\a\x7f", bad + bad},
		{"an 8-bit control", "a\u009b31m", "a" + bad + "31m"},
		{"right to left override", "a\u202egnp.exe", "a" + bad + "gnp.exe"},
		{"an isolate", "a\u2066b\u2069", "a" + bad + "b" + bad},
		{"a mark without width", "a\u200bb\u061cc\ufeffd", "a" + bad + "b" + bad + "c" + bad + "d"},
		{"a line separator", "a\u2028b", "a" + bad + "b"},
		{"invisible tags", "a\U000e0041b", "a" + bad + "b"},
		{"not UTF-8", "a\xffb", "a" + bad + "b"},
		{"too long: the end says why", strings.Repeat("a", 480) + ": permission denied", strings.Repeat("a", 240) + "…" + strings.Repeat("a", 221) + ": permission denied"},
		{"as long as can be", strings.Repeat("a", 480), strings.Repeat("a", 480)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := render.Safe(r.text); got != r.want {
				t.Errorf("got %q, want %q", got, r.want)
			}
		})
	}
	for n := 470; n < 490; n++ {
		for _, text := range []string{strings.Repeat("a", n) + "灯灯灯", strings.Repeat("a", n%7) + strings.Repeat("灯", 180)} {
			if got := render.Safe(text); !utf8.ValidString(got) || len(got) > 490 {
				t.Errorf("cut inside a letter, or not at all: %q", got)
			}
		}
	}
}

// TestTableIsSafe puts hostile text into every field that others write.
func TestTableIsSafe(t *testing.T) {
	const evil = "\x1b[2J\u202e\nOK release: complete"
	v := verdict.New(evil, noon())
	v.Add(verdict.Find(verdict.Extra, evil, "%s", evil).Differ(evil, evil))
	v.Findings[0].Known = &verdict.Known{ID: evil, Explanation: evil, Source: evil}
	v.Waived = []verdict.Waiver{{Finding: v.Findings[0], Kind: verdict.ByException, ID: evil, Reason: evil, By: evil}}
	v.Warn(verdict.Find(verdict.Extra, evil, "%s", evil))
	v.Note("%s", evil)
	v.Proofs = []verdict.Proof{{Identity: evil, Statement: evil, Role: "release"}}
	page := write(t, render.Table, v)
	if strings.ContainsAny(page, "\x1b\u202e") || strings.Contains(page, "\nOK ") {
		t.Errorf("hostile text reaches the terminal: %q", page)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWriteFails(t *testing.T) {
	for _, f := range render.Formats() {
		if err := render.Write(brokenPipe{}, render.Format(f), *refusedRelease()); err == nil {
			t.Errorf("%s: a lost verdict is no error", f)
		}
	}
	err := render.Write(&bytes.Buffer{}, "yaml", *refusedRelease())
	if err == nil || verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("an unknown format: %v, want USAGE", err)
	}
	for _, f := range render.Formats() {
		write(t, render.Format(f), refusedRelease())
	}
}

// TestFeaturesAreShown: how far a requirement counted is part of what a verdict
// rests on, in every form for people.
func TestFeaturesAreShown(t *testing.T) {
	v := verdict.New("image lantern", noon())
	v.Policy = digest.Of(digest.SHA256, []byte("policy"))
	v.AddFeatures(verdict.Feature{Name: "waybill/RequireProvenance", State: "TurningOn", Number: 1, Mode: "warn"})
	for _, f := range []render.Format{render.Table, render.Markdown, render.HTML} {
		if got := write(t, f, v); !strings.Contains(strings.ReplaceAll(got, "\\", ""), "waybill/RequireProvenance is TurningOn since transition 1; here it counts as warn") {
			t.Errorf("%s does not say it:\n%s", f, got)
		}
	}
}
