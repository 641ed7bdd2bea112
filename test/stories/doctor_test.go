package stories

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

// examined is what the stories read of a doctor's report.
type examined struct {
	Schema, For string
	Checks      []struct{ Name, State, Says, Code, Next string }
}

// codes are those of what is bad, sorted.
func (e examined) codes() []string {
	var codes []string
	for _, c := range e.Checks {
		if c.State == "bad" {
			codes = append(codes, c.Code)
		}
	}
	slices.Sort(codes)
	return codes
}

func (e examined) state(name string) string {
	for _, c := range e.Checks {
		if c.Name == name {
			return c.State
		}
	}
	return "not listed"
}

// doctor examines for a purpose, with all tokens.
func (s sourced) doctor(t *testing.T, purpose string, flags ...string) (scene.Result, examined) {
	t.Helper()
	if !slices.Contains(flags, "--profile") {
		flags = append(flags, "--profile", "profile.yaml")
	}
	r := s.Run(t.Context(), append([]string{"waybill", "doctor", scene.Version, "--for", purpose, "--state", "none", "--output", "json"}, flags...)...)
	var e examined
	if err := json.Unmarshal([]byte(r.Stdout), &e); err != nil {
		t.Fatalf("%s: %v\n%s%s", r, err, r.Stdout, r.Stderr)
	}
	return r, e
}

// flags name the source and a fresh token for each role but those left out.
func (s sourced) flags(t *testing.T, without ...string) []string {
	t.Helper()
	flags := []string{"--source", "lantern"}
	for _, role := range []string{"builder", "builder-unisolated", "release"} {
		if !slices.Contains(without, role) {
			s.write(t, role+".token", s.Lab.Token(role))
			flags = append(flags, "--identity-token", role+"="+role+".token")
		}
	}
	return flags
}

func (s sourced) write(t *testing.T, name, body string) {
	t.Helper()
	if err := os.WriteFile(s.Path(name), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
}

// log is the state of the transparency log: it changes with every entry.
func (s sourced) log(t *testing.T) string { return s.get(t, s.Lab.Rekor+"/api/v2/checkpoint") }

// staged lists the staging bucket.
func (s sourced) staged(t *testing.T) string { return s.get(t, s.Lab.Bucket+"/storage/v1/b/staging/o") }

func (s sourced) get(t *testing.T, at string) string {
	t.Helper()
	response, err := http.Get(at)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", at, response.Status, err)
	}
	return string(body)
}

// front stands before a service of the lab and changes its answers.
func front(t *testing.T, at string, change func(*http.Response)) string {
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	door := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error { change(r); return nil },
	})
	t.Cleanup(door.Close)
	return door.URL
}

// TestDoctorStories: what is wrong is found before anything is made, each
// fault by itself and all of them at once.
func TestDoctorStories(t *testing.T) {
	s := openSourced(t)
	before, held := s.log(t), s.staged(t)
	t.Run("well", func(t *testing.T) { s.well(t) })
	t.Run("faults", func(t *testing.T) { s.faults(t) })
	t.Run("services", func(t *testing.T) { s.services(t) })
	t.Run("all at once, before anything is made", func(t *testing.T) { s.preflight(t) })
	if s.log(t) != before || s.staged(t) != held {
		t.Error("looking left something in the log or in the place")
	}
}

func (s sourced) well(t *testing.T) {
	for _, purpose := range []string{"build", "stage", "release", "verify"} {
		r, e := s.doctor(t, purpose, s.flags(t)...)
		want(t, r, 0)
		if e.Schema != "waybill/doctor/v1" || e.For != purpose || e.state("clock") != "ok" || e.state("policy") != "ok" {
			t.Errorf("%s: %+v", purpose, e)
		}
		for _, role := range []string{"builder", "release"} {
			token, err := os.ReadFile(s.Path(role + ".token"))
			if err != nil || strings.Contains(r.Stdout+r.Stderr, strings.Split(string(token), ".")[2]) {
				t.Errorf("the %s token was printed: %v", role, err)
			}
		}
	}
	r, e := s.doctor(t, "stage", s.flags(t)...)
	want(t, r, 0)
	for name, state := range map[string]string{
		"source": "ok", "lock": "ok", "identity token release": "ok", "transparency log": "ok", "disk": "ok", "base image static": "ok", "state directory": "ok",
		"staging files": "ok", "staging files, writing": "ok", "staging registry, lantern, pushing": "warn",
	} {
		if got := e.state(name); got != state {
			t.Errorf("%s: %s, want %s", name, got, state)
		}
	}
	want(t, r, 0, "nothing was written", "pushing a blob was not tested", "--confirm")
	r, e = s.doctor(t, "stage", append(s.flags(t), "--confirm")...)
	if want(t, r, 0); e.state("staging files, writing") != "ok" || e.state("staging registry, lantern, pushing") != "ok" {
		t.Errorf("confirmed: %s", r.Stdout)
	}
	if _, err := os.Stat(s.Path("none")); err == nil {
		t.Error("the state directory was made")
	}
	flags := s.flags(t)
	if err := os.Chmod(s.Path("release.token"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, e = s.doctor(t, "stage", flags...)
	if want(t, r, 0, "chmod 600 release.token"); e.state("identity token release") != "warn" {
		t.Errorf("a token that everybody can read: %s", r.Stdout)
	}
	if err := os.Remove(s.Path("release.token")); err != nil {
		t.Fatal(err)
	}
	if r, e = s.doctor(t, "stage", flags...); r.Code != 2 || e.state("identity token release") != "bad" {
		t.Errorf("a token that is not there: %s", r.Stdout)
	}
}

// faults changes one fact of what is well, and expects exactly that fault.
func (s sourced) faults(t *testing.T) {
	write := func(name string, body func() string) func() {
		return func() { s.write(t, name, body()) }
	}
	mint := func(as string, claims map[string]any) func() string {
		return func() string {
			token, err := s.Lab.Mint(as, claims)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
	}
	nothing := func() {}
	for _, row := range []struct {
		name       string
		without    string
		do, undo   func()
		more       []string
		code, says string
		status     int
	}{
		{"no token", "release", nothing, nothing, nil, "USAGE", "no token was given for release", 2},
		{"a token of another role", "", write("release.token", mint("verifier", nil)), nothing, nil, "SIGNED_AS_ELSE", "release@lab.invalid", 1},
		{"a token that expired", "", write("release.token", mint("release", map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})), nothing, nil, "TOKEN_REFUSED", "the token expired at", 1},
		{"a token of later", "", write("release.token", mint("release", map[string]any{"nbf": time.Now().Add(3 * time.Minute).Unix()})), nothing, nil, "TOKEN_REFUSED", "check the clock", 1},
		{"a token of another provider", "", write("release.token", mint("release", map[string]any{"iss": "https://other.example.test"})), nothing, nil, "SIGNED_AS_ELSE", "other.example.test", 1},
		{"no web token", "", write("release.token", func() string { return "secret" }), nothing, nil, "USAGE", "not a signed web token", 2},
		{"what is not committed", "", func() { edit(t, s.Path("lantern", "LICENSE"), "", "changed ") }, func() { s.git(t, "checkout", "-q", "--", "LICENSE") }, nil, "SOURCE_DIRTY", "LICENSE", 1},
		{"a source that the policy does not take", "", func() { s.git(t, "clone", "-q", ".", s.Path("clone")) }, nothing, []string{"--source", "clone"}, "SOURCE_REPOSITORY", "the policy does not accept builds", 1},
		{"places of another release", "", func() {
			edit(t, s.Path("profile.yaml"), "canonical: \"https://dl.example.test/lantern/", "canonical: \"https://dl.example.test/other/")
		},
			func() {
				edit(t, s.Path("profile.yaml"), "canonical: \"https://dl.example.test/other/", "canonical: \"https://dl.example.test/lantern/")
			}, nil, "RESOURCE", "name different places for the", 1},
		{"no such tag", "", nothing, nothing, []string{"--source", "lantern@v9.9.9"}, "USAGE", "create the tag", 2},
		{"no repository", "", nothing, nothing, []string{"--source", "nowhere"}, "USAGE", "no such directory", 2},
		{"no profile", "", nothing, nothing, []string{"--profile", "nowhere.yaml"}, "USAGE", "nowhere.yaml", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			flags := s.flags(t, row.without)
			if len(row.more) > 0 && row.more[0] == "--source" {
				flags = flags[2:]
			}
			row.do()
			defer row.undo()
			r, e := s.doctor(t, "stage", append(flags, row.more...)...)
			want(t, r, row.status, row.says)
			if got := e.codes(); !slices.Equal(got, []string{row.code}) {
				t.Errorf("%v, want %s alone\n%s", got, row.code, r.Stdout)
			}
		})
	}
}

// services stands before each of them, and has it answer otherwise.
func (s sourced) services(t *testing.T) {
	config, err := os.ReadFile(s.Path("signing_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	shift := func(by time.Duration) func(*http.Response) {
		return func(r *http.Response) { r.Header.Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat)) }
	}
	status := func(code int) func(*http.Response) {
		return func(r *http.Response) { r.StatusCode = code }
	}
	for _, row := range []struct {
		name, service string
		change        func(*http.Response)
		status        int
		code, says    string
	}{
		{"as it is", "fulcio", func(*http.Response) {}, 0, "", ""},
		{"its clock is a minute off", "log", shift(time.Minute), 0, "", "behind the transparency log"},
		{"its clock is an hour ahead", "log", shift(time.Hour), 3, "CLOCK", "behind the transparency log"},
		{"its clock is an hour behind", "fulcio", shift(-time.Hour), 3, "CLOCK", "ahead of the certificate authority"},
		{"it fails", "fulcio", status(http.StatusInternalServerError), 3, "UNAVAILABLE", "certificate authority"},
		{"it is something else", "log", status(http.StatusNotFound), 0, "", "not the answer of such a service"},
	} {
		t.Run(row.name, func(t *testing.T) {
			at := map[string]string{"fulcio": s.Lab.Fulcio, "log": s.Lab.Rekor}[row.service]
			edit(t, s.Path("signing_config.json"), at, front(t, at, row.change))
			defer s.write(t, "signing_config.json", string(config))
			r, e := s.doctor(t, "stage", s.flags(t)...)
			want(t, r, row.status, row.says)
			if got := strings.Join(e.codes(), " "); got != row.code {
				t.Errorf("%q, want %q\n%s", got, row.code, r.Stdout)
			}
		})
	}
}

// preflight: stage lists every fault at once, and made nothing.
func (s sourced) preflight(t *testing.T) {
	edit(t, s.Path("lantern", "LICENSE"), "", "changed ")
	flags := append(s.flags(t, "release"), "--profile", "profile.yaml", "--state", "none", "--confirm", "--output", "json=verdict.json", "--output", "table")
	s.write(t, "builder.token", s.Lab.Token("release"))
	s.write(t, "builder-unisolated.token", s.Lab.Token("release"))
	want(t, s.Run(t.Context(), append([]string{"waybill", "stage", scene.Version}, flags...)...), 2, "SOURCE_DIRTY", "SIGNED_AS_ELSE", "no token was given for release", "→")
	if _, err := os.Stat(s.Path("none")); err == nil {
		t.Error("something was made")
	}
	raw, err := os.ReadFile(s.Path("verdict.json"))
	if err != nil || !strings.Contains(string(raw), "SOURCE_DIRTY") {
		t.Errorf("verdict file: %v", err)
	}
	s.git(t, "checkout", "-q", "--", "LICENSE")
}
