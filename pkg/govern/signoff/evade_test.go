package signoff_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The ways around the rules that somebody may think of, each with a twin.

// TestNothingToSee: what no reader of the page sees fills no section, and what
// says that more is to come is no text.
func TestNothingToSee(t *testing.T) {
	with := func(text string) *world {
		return good(t).change(t, readme, "Two lighthouses use it for a year.", text)
	}
	for _, text := range []string{
		"\u200b", "\ufeff", "\u3164", "\u00a0", "—", "&nbsp;", "&#8203;", "<br>", "<p></p>", `<a name="x"></a>`, "<details></details>", "![]()", "[](#x)", "```\n```",
	} {
		with(text).expect(t, verdict.SignoffEmpty, "Graduation Criteria")
	}
	for _, text := range []string{"TBD: by code freeze", "TODO (@keeper)", "- [ ] TBD - see later", "WIP", "Coming soon.", "TBC"} {
		with(text).expect(t, verdict.SignoffPlaceholder, "Graduation Criteria")
	}
	for _, text := range []string{
		"✅", "5", "N/A", "<p>Two years.</p>", "![a year](year.png)", `<img src="year.png">`, "```\n<br>\n```", "[years](#x)", "<https://kubernetes.io/>", "年",
		"TODO lists are dimmed too.", "A WIP label is taken off.", "TBDs are counted.",
	} {
		with(text).accepted(t)
	}
}

// TestOneNumber: two documents of one number would share approvals and
// exceptions.
func TestOneNumber(t *testing.T) {
	double := func(name string) *world {
		w := good(t)
		for _, file := range []string{readme, kep} {
			w.files["keps/sig-light/"+name+strings.TrimPrefix(file, dir)] = w.files[file]
		}
		return w
	}
	double("7001-shade").expect(t, verdict.SignoffDocument, "has the same number, 7001")
	other := double("7001-shade")
	other.files["keps/sig-light/7001-shade/kep.yaml"] = strings.Replace(other.files[kep], `latest-milestone: "v1.37"`, `latest-milestone: "v1.36"`, 1)
	other.accepted(t)
}

// TestReviewOfTheSIG: of several reviews of one number, that of the SIG counts.
func TestReviewOfTheSIG(t *testing.T) {
	w := good(t)
	for _, sig := range []string{"sig-a", "sig-z"} {
		w.files["keps/prod-readiness/"+sig+"/7001.yaml"] = strings.ReplaceAll(w.files[review], "@pilot", "@stranger")
	}
	w.accepted(t)
}

// TestExceptedByAnExample: whom the template names excepts nothing.
func TestExceptedByAnExample(t *testing.T) {
	for who, words := range map[string]string{"TBD": "the example", "@TBD": "the example", "@jane.doe": "the example", "@harbour": ""} {
		w := good(t).change(t, readme, "- dimmer_test.go: every step of the wheel.", "").change(t, readme, "- [x] (R) KEP approvers", "- [ ] (R) KEP approvers").
			change(t, "record.yaml", "approvals:", `exceptions:
- {document: "7001", code: SIGNOFF_EMPTY, about: Test Plan, reason: later, approver: "`+who+`", filed: "2026-02-09", expires: "2026-03-09"}
approvals:`)
		if who != "@harbour" {
			w.change(t, kep, "  - \"@harbour\"", "  - \"@harbour\"\n  - \""+who+"\"")
		}
		v, r := w.check(t)
		if notes := strings.Join(v.Notes, "\n"); len(r.Exceptions) > 0 != (words == "") || !strings.Contains(notes, words) {
			t.Errorf("%s: %d exceptions, notes %q, want %q", who, len(r.Exceptions), v.Notes, words)
		}
	}
}

// TestHiddenDocuments: a document that lies behind a link, or is not called as
// documents are, is not passed over in silence.
func TestHiddenDocuments(t *testing.T) {
	outside := t.TempDir()
	rows := []struct {
		name  string
		place func(root *os.Root) error
		words string       // "" for what is no matter
		fails verdict.Code // "" for what is a finding
	}{
		{"a link to a directory", func(r *os.Root) error { return r.Symlink("7001-lantern-dimmer", "keps/sig-release/7002-x") }, "a link to a directory", ""},
		{"a link that leads out", func(r *os.Root) error { return r.Symlink(outside, "keps/sig-x") }, "out of the directory", ""},
		{"another name", func(r *os.Root) error { return write(r, "keps/sig-release/7002-x/readme.md") }, "rename it to README.md", ""},
		{"another ending", func(r *os.Root) error { return write(r, "keps/sig-release/7002-x/kep.yml") }, "rename it to kep.yaml", ""},
		{"a document that leads out", func(r *os.Root) error {
			return r.Symlink(outside, "keps/sig-release/7001-lantern-dimmer/prod/README.md")
		}, "", verdict.FileType},
		{"a document that is a circle", func(r *os.Root) error {
			return r.Symlink("README.md", "keps/sig-release/7001-lantern-dimmer/prod/README.md")
		}, "", verdict.FileType},
		{"a link to a file", func(r *os.Root) error { return r.Symlink("kep.yaml", "keps/sig-release/7001-lantern-dimmer/k") }, "", ""},
		{"a link to nothing", func(r *os.Root) error { return r.Symlink("nothing", "keps/sig-release/7001-lantern-dimmer/k") }, "", ""},
		{"another file", func(r *os.Root) error { return write(r, "keps/sig-release/notes/readme.md") }, "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := good(t)
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = root.Close() }() // it is thrown away
			for name, text := range w.files {
				if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := root.MkdirAll("keps/sig-release/7001-lantern-dimmer/prod", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := row.place(root); err != nil {
				t.Fatal(err)
			}
			w.check(t) // for template and record
			set, err := signoff.Read(root.FS(), "enhancements")
			if row.fails != "" {
				if verdict.FindingOf("", err).Code != row.fails {
					t.Errorf("%v, want %s", err, row.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			w.q.Set = set
			v, _ := signoff.Check(w.q)
			switch {
			case row.words == "" && v.Outcome() != verdict.Accepted:
				t.Errorf("%s: %v", v.Headline(), v.Findings)
			case row.words != "" && (len(v.Findings) != 1 || v.Findings[0].Code != verdict.SignoffDocument || !strings.Contains(v.Findings[0].Message, row.words)):
				t.Errorf("%s: %v, want %q", v.Headline(), v.Findings, row.words)
			}
		})
	}
}

func write(r *os.Root, name string) error {
	if err := r.MkdirAll(filepath.Dir(name), fs.ModePerm); err != nil {
		return err
	}
	return r.WriteFile(name, []byte("# KEP-7002: x\n"), 0o644)
}

// TestK14LinksInDisguise: what a reader of the page can follow is a link,
// however it is written.
func TestK14LinksInDisguise(t *testing.T) {
	link := func(to string) *world { return good(t).change(t, readme, "https://kubernetes.io/docs/", to) }
	for _, to := range []string{
		"www.github.com.example.test", "[x](//github.example.test/x)", `<a href="//github.example.test/x">x</a>`, "https&#58;//github.example.test/",
		`https:\/\/github.example.test/`, `https://github\.example.test/`, "[x](https://github&period;example.test/)",
	} {
		link(to).expect(t, verdict.SignoffLink, "looks like github.com")
	}
	for _, to := range []string{"www.kubernetes.io", "[x](//kubernetes.io/x)", "// a comment in code", "wwwgithub.example", "a//github.example.test"} {
		link(to).accepted(t)
	}
	for _, host := range []string{"", "com", "*", "*.example.test", "https://example.test/", "Example.test", "example.test:443", ".example.test"} {
		if _, err := signoff.NewHosts([]string{host}, true); verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%q is a host: %v", host, err)
		}
	}
	if h, err := signoff.NewHosts([]string{"docs.example.test"}, true); err != nil || !h.Only || len(h.Allowed) != len(signoff.Canonical())+1 {
		t.Errorf("%+v, %v", h, err)
	}
	w := good(t)
	w.files[readme] = string(seed(t, webPage))
	v, _ := w.check(t)
	found := false
	for _, f := range v.Findings {
		found = found || f.Code == verdict.SignoffLink && strings.Contains(f.Message, "github.aaakk.us.kg")
	}
	if !found {
		t.Errorf("the mirror that the page links to is not found: %v", v.Findings)
	}
}

// TestK14WebPages: the chrome and the line numbers of a page are no text, how
// items are nested is not known, and hosts that look like others are refused.
func TestK14WebPages(t *testing.T) {
	var gutter strings.Builder
	gutter.WriteString("-\nNotifications\nFork 1.5k\n/\nREADME.md\n12 lines\n")
	for _, n := range strings.Fields("1 2 3 4 5 6 7 8 9 10 11 12") {
		gutter.WriteString(n + "\n")
	}
	flat := good(t)
	flat.files[readme] = gutter.String() + strings.ReplaceAll(flat.files[readme], "\n  ", "\n")
	_, r := flat.accepted(t)
	for _, b := range r.Documents[0].Boxes {
		if b.Depth != 0 {
			t.Errorf("%q has depth %d, want 0: a page does not show how items are nested", b.Text, b.Depth)
		}
	}
	link := func(to string) *world { return good(t).change(t, readme, "https://kubernetes.io/docs/", to) }
	for _, to := range []string{
		"https://", "http://127.0.0.1:8080/", "http://10.0.0.7/", "https://docs.kubernetes.io/", "https://github.com/x/y", "https://example.test/blog", "https://GitHub.com./x",
	} {
		link(to).accepted(t)
	}
	for to, words := range map[string]string{
		"https://github.example.test/kubernetes": "looks like github.com",
		"https://github.com.example.test/":       "looks like github.com",
		"https://githud.com/":                    "looks like github.com",
		"https://kubernetes-io.example.test/":    "looks like kubernetes",
		"https://k8s.example.test/":              "looks like k8s.io",
		"https://g1thub.com/":                    "looks like github.com",
		"https://github.com@example.test/":       "before the @",
		"https://:80/x":                          "not a valid address",
		"https://192.0.2.7/x":                    "an IP address",
		"https://[2001:db8::7]/x":                "an IP address",
		"https://gіthub.com/":                    "letters", // a Cyrillic i
		"https://xn--gthub-1gf.com/":             "letters",
	} {
		link(to).expect(t, verdict.SignoffLink, words)
	}
	good(t).change(t, readme, "https://git.k8s.io/enhancements", "https://example.test/enhancements").expect(t, verdict.SignoffLink, "not one of the allowed hosts")
	w := link("https://example.test/blog")
	w.q.Hosts.Only = true
	w.expect(t, verdict.SignoffLink, "example.test")
	w.q.Hosts.Allowed = append(w.q.Hosts.Allowed, "example.test")
	w.accepted(t)
	d, err := signoff.ParseDocument(seed(t, webPage))
	if err != nil || d.Title() != "KEP-NNNN: Your short, descriptive title" || len(d.Sections()) != 57 {
		t.Errorf("%q, %d sections, %v", d.Title(), len(d.Sections()), err)
	}
}
