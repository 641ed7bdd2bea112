package fetch_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestDownload(t *testing.T) {
	p, dir := serve(t), t.TempDir()
	body := []byte("a table of stars")
	p.files["stars.txt"] = body
	s := open(t, dir)
	pin := plan.DownloadLock{URL: p.URL + "/stars.txt", Size: int64(len(body)), Digest: digest.Of(digest.SHA256, body)}
	got, err := s.Download(t.Context(), "stars", pin)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(got.Path); err != nil || string(raw) != string(body) || !got.Digests.Equal(digest.SetOf(body)) || got.Size != pin.Size {
		t.Errorf("file: %+v, %v", got, err)
	}
	p.questions()
	if again, err := s.Download(t.Context(), "stars", pin); err != nil || again != got || len(p.questions()) > 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	// What lies there is believed no more than what comes.
	if err := os.Chmod(got.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(got.Path, []byte("a table of STARS"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Download(t.Context(), "stars", pin); err != nil || again != got || len(p.questions()) != 1 {
		t.Errorf("after a change: %+v, %v", again, err)
	}
	empty(t, dir)
}

func TestDownloadRefused(t *testing.T) {
	p, dir := serve(t), t.TempDir()
	body := []byte("a table of stars")
	p.files["stars.txt"] = body
	s := open(t, dir)
	pin := plan.DownloadLock{URL: p.URL + "/stars.txt", Size: int64(len(body)), Digest: digest.Of(digest.SHA256, body)}
	for name, row := range map[string]struct {
		change func(*plan.DownloadLock)
		code   verdict.Code
		words  string
	}{
		"other bytes":  {func(d *plan.DownloadLock) { d.Digest = digest.Of(digest.SHA256, nil) }, verdict.FetchHash, "not the pinned one"},
		"shorter":      {func(d *plan.DownloadLock) { d.Size++ }, verdict.FetchHash, "(17 bytes)"},
		"longer":       {func(d *plan.DownloadLock) { d.Size-- }, verdict.Limit, "more than 15 bytes"},
		"gone":         {func(d *plan.DownloadLock) { d.URL = p.URL + "/gone" }, verdict.FetchMissing, "404"},
		"plain http":   {func(d *plan.DownloadLock) { d.URL = "http://files.example.test/stars.txt" }, verdict.ConfigParse, "https"},
		"no digest":    {func(d *plan.DownloadLock) { d.Digest = digest.Digest{} }, verdict.ConfigParse, "want a digest"},
		"out of bound": {func(d *plan.DownloadLock) { d.Size = plan.MaxDownload + 1 }, verdict.ConfigParse, "want a digest"},
	} {
		other := pin
		row.change(&other)
		_, err := s.Download(t.Context(), "stars", other)
		if err == nil || !strings.Contains(err.Error(), "stars") {
			t.Errorf("%s: %v", name, err)
		}
		refused(t, err, row.code, row.words)
		if names := tree(t, dir); len(names) > 0 {
			t.Errorf("%s: left %q", name, names)
		}
	}
	if _, err := s.Download(t.Context(), "stars", pin); err != nil {
		t.Errorf("the twin: %v", err)
	}
	p.Close()
	pin.Digest = digest.Of(digest.SHA256, []byte("not there yet"))
	_, err := s.Download(t.Context(), "stars", pin)
	unavailable(t, err)
}
