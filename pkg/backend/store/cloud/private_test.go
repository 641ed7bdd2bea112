package cloud_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// guarded is a bucket of one object that answers those whom it knows.
type guarded struct {
	knows string // a key id; "" answers everybody
	terse bool   // its list says less than lists do
	asked []string
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	said := r.Header.Get("Authorization")
	g.asked = append(g.asked, said)
	switch {
	case g.knows != "" && !strings.HasPrefix(said, "AWS4-HMAC-SHA256 Credential="+g.knows+"/"):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
	case r.URL.Query().Get("list-type") == "2":
		object := `<Key>v1/a</Key><Size>5</Size><ETag>"7"</ETag><LastModified>2026-01-02T03:04:05.000Z</LastModified>`
		if g.terse {
			object = "<Key>v1/a</Key>"
		}
		fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents>"+object+"</Contents></ListBucketResult>")
	case r.URL.Path == "/rel/v1/a":
		w.Header().Set("Content-Length", "5")
		fmt.Fprint(w, "alpha")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestPlaceOfOthers: credentials go to a bucket that demands some, and to no
// other; where there are none, it is unavailable and says what to set.
func TestPlaceOfOthers(t *testing.T) {
	const ours = "OURKEY"
	rows := map[string]struct {
		knows, key string
		want       string // a part of the error; "" for none
		sent       bool
	}{
		"a public bucket":                   {"", ours, "", false},
		"a bucket that knows us":            {ours, ours, "", true},
		"a bucket that knows somebody else": {"OTHERKEY", ours, "AccessDenied", true},
		"no credentials":                    {ours, "", "set AWS_ACCESS_KEY_ID", false},
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			for _, unset := range []string{"AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN"} {
				t.Setenv(unset, "")
			}
			for set, value := range map[string]string{
				"AWS_ACCESS_KEY_ID": r.key, "AWS_SECRET_ACCESS_KEY": r.key, "AWS_EC2_METADATA_DISABLED": "true",
				"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_CONFIG_FILE": "/nonexistent",
			} {
				t.Setenv(set, value)
			}
			g := &guarded{knows: r.knows}
			srv := httptest.NewTLSServer(g)
			defer srv.Close()
			place, err := cloud.OpenPlace("s3+"+srv.URL+"/rel/v1/", srv.Client().Transport)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := place.List(t.Context())
			body, err2 := open(t, place)
			sent := strings.Contains(strings.Join(g.asked, ""), "AWS4")
			if sent != r.sent {
				t.Errorf("asked as %q", g.asked)
			}
			if r.want == "" {
				if err != nil || err2 != nil || len(objects) != 1 || objects[0].Name != "a" || body != "alpha" {
					t.Errorf("%v %v, %q %v", objects, err, body, err2)
				}
				return
			}
			for _, err := range []error{err, err2} {
				if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.PlaceDown || !strings.Contains(err.Error(), r.want) {
					t.Errorf("%v, want UNAVAILABLE with %q", err, r.want)
				}
			}
		})
	}
}

func open(t *testing.T, place store.Place) (string, error) {
	t.Helper()
	body, _, err := place.Open(t.Context(), "a")
	if err != nil {
		return "", err
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	return string(raw), err
}

// TestTerseList: a list that lacks what every list has is no answer.
func TestTerseList(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "OURKEY")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "OURKEY")
	srv := httptest.NewTLSServer(&guarded{knows: "OURKEY", terse: true})
	defer srv.Close()
	place, err := cloud.OpenPlace("s3+"+srv.URL+"/rel/v1/", srv.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	if objects, err := place.List(t.Context()); err == nil || verdict.FindingOf("", err).Code != verdict.PlaceDown {
		t.Errorf("listed %v, %v", objects, err)
	}
}

// TestPlacesOfAnotherKind are opened as ever.
func TestPlacesOfAnotherKind(t *testing.T) {
	for _, uri := range []string{"https://dl.example.test/v1/", "gs+http://127.0.0.1:1/rel/v1/"} {
		place, err := cloud.OpenPlace(uri, http.DefaultTransport)
		if err != nil || place.URI() != uri {
			t.Errorf("%q: %v", uri, err)
		}
	}
	if _, err := cloud.OpenPlace("gs://", http.DefaultTransport); err == nil {
		t.Error("no bucket was opened")
	}
}
