package gate

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// saved is an archive as docker saves one.
func saved(t testing.TB, entries ...[2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e[0], Mode: 0o644, Size: int64(len(e[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// onePlace is a place with one file.
type onePlace struct {
	store.Place
	body []byte
}

func (p onePlace) Open(context.Context, string) (io.ReadCloser, int64, error) {
	return io.NopCloser(bytes.NewReader(p.body)), int64(len(p.body)), nil
}

// TestConfigIn reads archives of images. Every row differs from the first in
// one fact.
func TestConfigIn(t *testing.T) {
	const config, list = `{"os":"linux"}`, `[{"Config":"c.json","Layers":["l/layer.tar"]}]`
	many := make([][2]string, maxEntries+2)
	for i := range many {
		many[i] = [2]string{fmt.Sprintf("%d", i), ""}
	}
	whole := saved(t, [2]string{"c.json", config}, [2]string{"l/layer.tar", "layer"}, [2]string{"manifest.json", list})
	for name, c := range map[string]struct {
		body []byte
		want verdict.Code
	}{
		"as docker saves it":           {whole, ""},
		"the list first, a dot before": {saved(t, [2]string{"./manifest.json", list}, [2]string{"./c.json", config}), ""},
		"bytes after its end":          {append(bytes.Clone(whole), "more"...), verdict.ArchiveHidden},
		"no configuration":             {saved(t, [2]string{"manifest.json", list}), verdict.FileType},
		"no list":                      {saved(t, [2]string{"c.json", config}), verdict.FileType},
		"two images":                   {saved(t, [2]string{"c.json", config}, [2]string{"manifest.json", `[{"Config":"c.json"},{"Config":"c.json"}]`}), verdict.FileType},
		"no image":                     {saved(t, [2]string{"c.json", config}, [2]string{"manifest.json", `[]`}), verdict.FileType},
		"a list that is none":          {saved(t, [2]string{"c.json", config}, [2]string{"manifest.json", `{`}), verdict.FileType},
		"no archive":                   {[]byte("SYNTHETIC"), verdict.FileType},
		"an archive that is cut":       {whole[:700], verdict.ArchiveParse},
		"too many files":               {saved(t, many...), verdict.Limit},
	} {
		got, err := configIn(t.Context(), onePlace{body: c.body}, "kube-proxy.tar", digest.Of(digest.SHA256, c.body))
		if c.want == "" && (err != nil || !got.Equal(digest.Of(digest.SHA256, []byte(config)))) || c.want != "" && (err == nil || verdict.FindingOf("", err).Code != c.want || !got.IsZero()) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.want)
		}
		// Other bytes than were given are refused, whatever is in them.
		if got, err := configIn(t.Context(), onePlace{body: c.body}, "kube-proxy.tar", digest.Of(digest.SHA256, []byte("x"))); err == nil || verdict.FindingOf("", err).Code != verdict.Tampered || !got.IsZero() {
			t.Errorf("%s, of another digest: %v, %v", name, got, err)
		}
	}
	// What is cut gives no other answer than the whole.
	for n := range whole {
		got, err := configIn(t.Context(), onePlace{body: whole[:n]}, "kube-proxy.tar", digest.Of(digest.SHA256, whole[:n]))
		if (err == nil) != got.Equal(digest.Of(digest.SHA256, []byte(config))) {
			t.Errorf("the first %d bytes of %d: %v, %v", n, len(whole), got, err)
		}
	}
}
