package cloud_test

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// emulator is the little of the JSON API that small uploads need.
type emulator struct {
	mu          sync.Mutex // owns what follows
	objects     map[string][]byte
	generations map[string]int
}

func (e *emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := r.URL.Path
	name, isObject := strings.CutPrefix(strings.TrimPrefix(path, "/download"), "/storage/v1/b/rel/o/")
	switch {
	case path == "/upload/storage/v1/b/rel/o" && r.Method == http.MethodPost:
		e.upload(w, r)
	case isObject && r.URL.Query().Get("alt") == "media":
		content, ok := e.objects[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("X-Goog-Generation", strconv.Itoa(e.generations[name]))
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
	case isObject && e.objects[name] != nil:
		e.answer(w, e.describe(name))
	case path == "/storage/v1/b/rel/o":
		e.list(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (e *emulator) upload(w http.ResponseWriter, r *http.Request) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || r.URL.Query().Get("uploadType") != "multipart" {
		http.Error(w, "only small uploads", http.StatusNotImplemented)
		return
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	var meta struct {
		Name        string `json:"name"`
		ContentType string `json:"contentType"`
	}
	if part, err := parts.NextPart(); err != nil || json.NewDecoder(part).Decode(&meta) != nil {
		http.Error(w, "no metadata", http.StatusBadRequest)
		return
	}
	part, err := parts.NextPart()
	if err != nil {
		return // given up
	}
	content, err := io.ReadAll(part)
	if err != nil {
		return
	}
	if want := r.URL.Query().Get("ifGenerationMatch"); want != "" && want != strconv.Itoa(e.generations[meta.Name]) {
		http.Error(w, `{"error":{"code":412,"message":"exists"}}`, http.StatusPreconditionFailed)
		return
	}
	e.objects[meta.Name] = content
	e.generations[meta.Name]++
	e.answer(w, e.describe(meta.Name))
}

func (e *emulator) describe(name string) map[string]any {
	sum := crc32.Checksum(e.objects[name], crc32.MakeTable(crc32.Castagnoli))
	return map[string]any{
		"kind": "storage#object", "bucket": "rel", "name": name, "generation": strconv.Itoa(e.generations[name]),
		"crc32c": base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)),
		"size":   strconv.Itoa(len(e.objects[name])),
	}
}

func (e *emulator) list(w http.ResponseWriter, r *http.Request) {
	var names []string
	for name := range e.objects {
		if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	const size = 7
	start, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	answer := map[string]any{"kind": "storage#objects"}
	if len(names) > start+size {
		names = names[:start+size]
		answer["nextPageToken"] = strconv.Itoa(start + size)
	}
	items := []any{}
	for _, name := range names[start:] {
		items = append(items, e.describe(name))
	}
	answer["items"] = items
	e.answer(w, answer)
}

func (e *emulator) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func serve(t *testing.T) string {
	t.Helper()
	return serveThrough(t, func(e http.Handler) http.Handler { return e })
}

// serveThrough starts an emulator whose answers pass through spoil.
func serveThrough(t *testing.T, spoil func(http.Handler) http.Handler) string {
	t.Helper()
	t.Setenv(transport.PatienceVariable, "300ms")
	srv := httptest.NewServer(spoil(&emulator{objects: map[string][]byte{"v10/sibling": nil}, generations: map[string]int{}}))
	t.Cleanup(srv.Close)
	return "gs+" + srv.URL + "/rel/v1/"
}

func TestConformance(t *testing.T) {
	checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
		b, err := cloud.Open(serve(t), http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		return b, b
	})
}

// TestConformanceOfThePublicReader writes as we do and reads as others do.
func TestConformanceOfThePublicReader(t *testing.T) {
	checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
		uri := serve(t)
		w, err := cloud.OpenWriter(uri, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		place, err := store.Open(uri, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		return place, w
	})
}

// refusing fails every request and remembers that there was one.
type refusing struct{ hosts []string }

func (r *refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	r.hosts = append(r.hosts, req.URL.Host)
	return nil, errors.New("refused by the test")
}

func TestNoCredentialsIsUnavailable(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "absent.json"))
	rt := &refusing{}
	b, err := cloud.Open("gs://bucket/v1/", rt)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(t.Context(), "f", 1, strings.NewReader("x"), store.PutOptions{})
	var down *verdict.UnavailableError
	if !errors.As(err, &down) || len(rt.hosts) > 0 {
		t.Errorf("without credentials: %v after %v, want an UnavailableError and no request", err, rt.hosts)
	}
}

func TestEverythingGoesThroughTheTransport(t *testing.T) {
	key := filepath.Join(t.TempDir(), "user.json")
	raw := `{"type":"authorized_user","client_id":"x","client_secret":"x","refresh_token":"x"}`
	if err := os.WriteFile(key, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", key)
	rt := &refusing{}
	b, err := cloud.Open("gs://bucket/v1/", rt)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.List(t.Context())
	var down *verdict.UnavailableError
	if !errors.As(err, &down) || len(rt.hosts) == 0 || !strings.Contains(err.Error(), "refused by the test") {
		t.Errorf("listing: %v after asking %v, want the refusal of the transport", err, rt.hosts)
	}
}

// TestAmazonGoesThroughTheTransport asks for credentials of each kind, and for
// a list; what there is of either is asked through the given transport alone.
func TestAmazonGoesThroughTheTransport(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for name, row := range map[string]struct {
		set    map[string]string
		asked  bool // whether there was a request
		reason string
	}{
		"keys of the environment":    {map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}, true, "refused by the test"},
		"the account of the machine": {map[string]string{"AWS_EC2_METADATA_DISABLED": "false"}, true, "refused by the test"},
		"none":                       {nil, false, "AWS_ACCESS_KEY_ID"},
		"a bundle of authorities":    {map[string]string{"AWS_CA_BUNDLE": none}, false, "SSL_CERT_FILE"},
		"another endpoint":           {map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, false, "AWS_ENDPOINT_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_CA_BUNDLE",
				"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
				t.Setenv(variable, row.set[variable])
			}
			t.Setenv("AWS_CONFIG_FILE", none)
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
			t.Setenv("AWS_EC2_METADATA_DISABLED", cmp.Or(row.set["AWS_EC2_METADATA_DISABLED"], "true"))
			rt := &refusing{}
			b, err := cloud.Open("s3://bucket/v1/", rt)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.List(t.Context())
			var down *verdict.UnavailableError
			if !errors.As(err, &down) || len(rt.hosts) > 0 != row.asked || !strings.Contains(err.Error(), row.reason) {
				t.Errorf("listing: %v after asking %v, want %q", err, rt.hosts, row.reason)
			}
		})
	}
}

func TestForeignEmulatorSettingIsRefused(t *testing.T) {
	uri := serve(t)
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1")
	b, err := cloud.Open(uri, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.List(t.Context()); err == nil || !strings.Contains(err.Error(), "STORAGE_EMULATOR_HOST") {
		t.Errorf("listing: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, uri := range []string{"", "/dir", "https://example.org/x/", "gs://", "gs+http://example.org/b/", "s3://"} {
		if _, err := cloud.Open(uri, http.DefaultTransport); err == nil {
			t.Errorf("%q was opened", uri)
		}
	}
	if _, err := cloud.OpenWriter("gs://bucket/", nil); err == nil {
		t.Error("opened without a transport")
	}
}
