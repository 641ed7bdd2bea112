package servers

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/test/scene"
)

// site is a web server with the files of a directory.
type site struct {
	server row
	url    string // of the directory
}

// sites serve a directory.
func sites(t *testing.T, root string) []site {
	t.Helper()
	web := func(name, version, url string) site {
		return site{row{Kind: "Web places", Server: name, Version: version}, url}
	}
	served := nginx(t, strings.ReplaceAll(`server { listen ADDRESS;
	location /html/ { alias ROOT/; autoindex on; }
	location /json/ { alias ROOT/; autoindex on; autoindex_format json; }
	location /gzip/ { alias ROOT/; gzip on; gzip_types *; gzip_min_length 1; }
	location /norange/ { alias ROOT/; max_ranges 0; }
	location /nohead/ { alias ROOT/; if ($request_method != GET) { return 405; } }
	location /moved/ { rewrite ^/moved/(.*)$ /html/$1 permanent; }
}`, "ROOT", root)).Ready
	return []site{
		web("nginx, autoindex as HTML", "1.22.1", "http://"+served+"/html"),
		web("nginx, autoindex as JSON", "1.22.1", "http://"+served+"/json"),
		web("nginx, gzip on", "1.22.1", "http://"+served+"/gzip"),
		web("nginx, no ranges", "1.22.1", "http://"+served+"/norange"),
		web("nginx, GET alone", "1.22.1", "http://"+served+"/nohead"),
		web("nginx, redirects each file", "1.22.1", "http://"+served+"/moved"),
		web("Apache, mod_autoindex", "2.4", "http://"+apacheAt(t, root)),
		web("Python's http.server", "3", "http://"+pythonAt(t, root)),
		web("Go's http.FileServer", "1.26", "http://"+goAt(t, root)),
	}
}

// TestWebPlaces: the suite of places that are read, through each web server.
// None can be listed, whatever pages it makes of a directory.
func TestWebPlaces(t *testing.T) {
	root := t.TempDir()
	for name, content := range checkplaces.Contents() {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	from, err := store.Open(root, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, web := range sites(t, root) {
		t.Run(web.server.Server, func(t *testing.T) {
			at, err := store.Open(web.url, transport.New(transport.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := at.List(t.Context()); !errors.Is(err, store.ErrNotListable) {
				t.Errorf("listing: %v, want ErrNotListable", err)
			}
			checkplaces.Read(t, func(*testing.T) store.Place { return at })
			checkplaces.Read(t, func(*testing.T) store.Place { return store.Listed(at, from) })
		})
	}
}

// TestWebReleases publishes a release in a directory, and reads it through each
// web server: alone it cannot be listed, and listed elsewhere each attack is
// refused.
func TestWebReleases(t *testing.T) {
	root := t.TempDir()
	s := open(t, func(s *scene.Scene) {
		s.Places.Files, s.Places.Objects = root, disk(root)
		ownImages(t, s)
	})
	publish(t, s)
	released := filepath.Join(root, "release", "lantern", scene.Version) + "/"
	all := sites(t, root)
	read := func(web site, flags ...string) scene.Result {
		return s.Verify(t.Context(), append([]string{"--files", web.url + "/release/lantern/" + scene.Version + "/"}, flags...)...)
	}
	edit(t, s, "policy.yaml", "policy-open.yaml", "closed: {files: require", `closed: {files: "off"`)
	edit(t, s, "profile.yaml", "open.yaml", "policy: policy.yaml", "policy: policy-open.yaml")
	for _, web := range all {
		if r := read(web, "--output", "json"); r.Code != 3 || !slices.Equal(findings(t, r), []string{"NOT_LISTABLE"}) {
			t.Errorf("%s, not listed: status %d, %q, want 3 and NOT_LISTABLE alone", web.server.Server, r.Code, findings(t, r))
		}
		ok(t, read(web, "--listing", released))
	}
	open := ok(t, s.Run(t.Context(), "k8s-verify-release", scene.Version, "--profile", "open.yaml", "--files", all[0].url+"/release/lantern/"+scene.Version+"/", "--output", "json"))
	if left := judged(t, open).Scope.Left; !slices.ContainsFunc(left, func(l string) bool { return strings.Contains(l, "extra files") }) {
		t.Errorf("a verdict about a place that is not listed leaves out %q, want extra files", left)
	}
	for _, a := range scene.Attacks() {
		if a.Codes[0] == "SEAL_EXTRA" {
			continue // before anything is published
		}
		undo, err := a.Do(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", a.Name, err)
		}
		for _, web := range all {
			want(t, read(web, "--listing", released), 1, a.Codes...)
		}
		if got := findings(t, read(all[0], "--output", "json")); a.Codes[0] != "EXTRA" && !slices.Contains(got, a.Codes[0]) {
			t.Errorf("%s, not listed: %q, want %s all the same", a.Name, got, a.Codes[0])
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
	}
	for _, web := range all {
		ok(t, read(web, "--listing", released))
		web.server.Works, web.server.Lacks = "verify, with a listing elsewhere; the attacks that apply", "a listing that Waybill reads"
		web.server.Does = "alone: NOT_LISTABLE, or partial if the policy does not close the files; with listing: as complete as the place that is listed"
		saw(t, web.server)
	}
}

// answer is what these tests read of a verdict in JSON.
type answer struct {
	Findings []struct {
		Code string `json:"code"`
	} `json:"findings"`
	Scope struct {
		Left []string `json:"left"`
	} `json:"scope"`
}

// judged reads the verdict that a command printed.
func judged(t *testing.T, r scene.Result) (v answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		t.Fatalf("%s: %v\n%s%s", r, err, r.Stdout, r.Stderr)
	}
	return v
}

// findings are the codes of a verdict.
func findings(t *testing.T, r scene.Result) (codes []string) {
	t.Helper()
	for _, f := range judged(t, r).Findings {
		codes = append(codes, f.Code)
	}
	return codes
}

// TestWebMistakes: a web server that is set up so that it gives other bytes than
// it has, or none, is never accepted.
func TestWebMistakes(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("file", "the bytes of the file")
	put("page.html", "<html>log in, please</html>")
	packed, err := os.Create(filepath.Join(root, "file.gz"))
	if err != nil {
		t.Fatal(err)
	}
	writer := gzip.NewWriter(packed)
	_, err = writer.Write([]byte("the bytes of the file"))
	if err = errors.Join(err, writer.Close(), packed.Close()); err != nil {
		t.Fatal(err)
	}
	address := nginx(t, strings.ReplaceAll(`server { listen ADDRESS;
	location /right/ { alias ROOT/; }
	location /packed/ { alias ROOT/; gzip_static always; }
	location /login/ { auth_basic "files"; auth_basic_user_file ROOT/none; alias ROOT/; }
	location /forbidden/ { return 403; }
	location /down/ { return 503; }
	location /loop/ { return 302 /loop/again/file; }
	location /outside/ { return 302 http://example.test/file; }
	location /broken/ { alias ROOT/; limit_except POST { deny all; } }
}`, "ROOT", root)).Ready
	for path, want := range map[string]string{
		"right": "", "packed": "other bytes", "login": "UNAVAILABLE", "forbidden": "UNAVAILABLE", "down": "UNAVAILABLE", "loop": "UNAVAILABLE", "outside": "UNAVAILABLE", "broken": "UNAVAILABLE",
	} {
		at, err := store.Open("http://"+address+"/"+path, transport.New(transport.Config{Patience: 300e6}))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := store.Read(t.Context(), at, "file", 1000)
		got := ""
		var coded interface{ Code() string }
		switch {
		case errors.As(err, &coded):
			got = coded.Code()
		case err != nil:
			got = err.Error()
		case string(raw) != "the bytes of the file":
			got = "other bytes"
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
}
