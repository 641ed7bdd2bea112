package promotionrecord_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var image = digest.Of(digest.SHA256, []byte("image"))

func whole() promotionrecord.Record {
	return promotionrecord.Record{
		Source: "staging.example.test/lantern", Destination: "registry.example.test/lantern", Digest: image,
		Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Builder: "https://github.com/waybill-release/waybill@v1.0.0", Tags: []string{"v0.1.0", "v0.1"},
		Manifest: promotionrecord.Resource{Name: "images.yaml", URI: "git+https://example.test/manifests", Digest: map[string]string{"gitCommit": strings.Repeat("a", 40)}},
		Promoter: promotionrecord.Promoter{Version: "v1.0.0", Commit: strings.Repeat("b", 40)},
		Job:      promotionrecord.Job{Name: "promote", Type: "postsubmit", BuildID: "1", ProwJobID: "2"},
	}
}

// TestNewAndParse: what was written is read again, under the names that the
// promoter's readers know, and one statement speaks for all destinations.
func TestNewAndParse(t *testing.T) {
	s, err := promotionrecord.New(whole(), "eu.example.test/lantern", "registry.example.test/lantern")
	if err != nil {
		t.Fatal(err)
	}
	got, err := promotionrecord.Parse(s)
	want := whole()
	want.Tags = []string{"v0.1", "v0.1.0"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v, %v", got, err)
	}
	for _, part := range []string{
		`"srcRef":"staging.example.test/lantern@` + image.String() + `"`, `"dstRef":"registry.example.test/lantern"`, `"digest":"` + image.String() + `"`,
		`"timestamp":"2026-03-01T12:00:00Z"`, `"builderId":`, `"source":{"name":"staging.example.test/lantern","digest":{"sha256":"` + image.Hex() + `"}}`,
		`"destination":{"name":"registry.example.test/lantern"`, `"promoter":{"version":"v1.0.0","gitCommit":`, `"job":{"name":"promote","type":"postsubmit","buildId":"1","prowJobId":"2"}`,
	} {
		if !strings.Contains(string(s.Predicate()), part) {
			t.Errorf("%s lacks %s", s.Predicate(), part)
		}
	}
	if subjects := s.Subjects(); len(subjects) != 2 || subjects[0].Name != "eu.example.test/lantern" {
		t.Errorf("of %v", subjects)
	}
	if s, err := promotionrecord.New(promotionrecord.Record{Destination: "a/b", Digest: image, Time: time.Now(), Builder: "x"}); err != nil || strings.Contains(string(s.Predicate()), "job") {
		t.Errorf("the least record: %s, %v", s.Raw(), err)
	}
}

// TestParseForms changes one thing of a record as the promoter writes it.
func TestParseForms(t *testing.T) {
	sum := image.Hex()
	predicate := `{"srcRef":"staging.example.test/lantern@sha256:` + sum + `","dstRef":"registry.k8s.io/lantern","digest":"sha256:` + sum + `","timestamp":"2026-09-17T07:00:00Z",` +
		`"builderId":"https://k8s.io/promo-tools@v4.6.0","tags":["v1.0.0","v1.1.0"],"source":{"name":"staging.example.test/lantern","digest":{"sha256":"` + sum + `"}},` +
		`"destination":{"name":"registry.k8s.io/lantern","digest":{"sha256":"` + sum + `"}},"promoter":{"version":"v4.6.0"},"job":{"name":"post"}}`
	other := digest.Of(digest.SHA256, []byte("other")).Hex()
	rows := []struct {
		name     string
		old, new string
		code     verdict.Code
	}{
		{"as it is", "", "", ""},
		{"a field of a later version", `"job"`, `"vsa":{"uri":"x"},"job"`, ""},
		{"no source, as sigcheck writes", `"srcRef":"staging.example.test/lantern@sha256:` + sum + `",`, ``, verdict.StatementParse}, // source says one
		{"no tags", `"tags":["v1.0.0","v1.1.0"],`, ``, ""},
		{"no job", `,"job":{"name":"post"}`, ``, ""},
		{"a field twice", `"tags"`, `"dstRef":"x","tags"`, verdict.StatementParse},
		{"a field in another case", `"job"`, `"DstRef":"x","job"`, verdict.StatementParse},
		{"another digest", `"digest":"sha256:` + sum + `","timestamp"`, `"digest":"sha256:` + other + `","timestamp"`, verdict.StatementParse},
		{"no digest", `"digest":"sha256:` + sum + `","timestamp"`, `"timestamp"`, verdict.StatementParse},
		{"another source digest", `lantern@sha256:` + sum, `lantern@sha256:` + other, verdict.StatementParse},
		{"a source without digest", `lantern@sha256:` + sum, `lantern`, verdict.StatementParse},
		{"another source name", `"source":{"name":"staging.example.test/lantern"`, `"source":{"name":"staging.example.test/lamp"`, verdict.StatementParse},
		{"another destination", `"destination":{"name":"registry.k8s.io/lantern"`, `"destination":{"name":"registry.k8s.io/lamp"`, verdict.StatementParse},
		{"a destination with a digest", `"dstRef":"registry.k8s.io/lantern"`, `"dstRef":"registry.k8s.io/lantern@sha256:` + sum + `"`, verdict.StatementParse},
		{"no destination", `"dstRef":"registry.k8s.io/lantern",`, ``, verdict.StatementParse},
		{"no time", `"timestamp":"2026-09-17T07:00:00Z",`, ``, verdict.StatementParse},
		{"a time that is none", `2026-09-17T07:00:00Z`, `yesterday`, verdict.StatementParse},
		{"no builder", `"builderId":"https://k8s.io/promo-tools@v4.6.0",`, ``, verdict.StatementParse},
		{"tags in disorder", `["v1.0.0","v1.1.0"]`, `["v1.1.0","v1.0.0"]`, verdict.StatementParse},
		{"a tag twice", `["v1.0.0","v1.1.0"]`, `["v1.0.0","v1.0.0"]`, verdict.StatementParse},
		{"a tag that is none", `["v1.0.0","v1.1.0"]`, `["v1.0.0/x"]`, verdict.StatementParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := strings.Replace(predicate, r.old, r.new, 1)
			if r.old != "" && changed == predicate {
				t.Fatal("nothing was changed")
			}
			_, err := parse(t, changed, "registry.k8s.io/lantern", sum)
			if err == nil && r.code != "" || err != nil && verdict.FindingOf("", err).Code != r.code {
				t.Errorf("%v, want %q", err, r.code)
			}
		})
	}
	if _, err := parse(t, predicate, "registry.k8s.io/lamp", sum); err == nil {
		t.Error("it is read of a subject that it does not name")
	}
	if _, err := parse(t, predicate, "registry.k8s.io/lantern", other); err == nil {
		t.Error("it is read of other bytes")
	}
}

func parse(t *testing.T, predicate, name, sum string) (promotionrecord.Record, error) {
	t.Helper()
	s, err := intoto.ParseOpen(fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":%q,"digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`,
		name, sum, promotionrecord.PredicateType, predicate))
	if err != nil {
		return promotionrecord.Record{}, err
	}
	return promotionrecord.Parse(s)
}

// TestGist: the same promotion is known again, whoever asks for it when.
func TestGist(t *testing.T) {
	gist := func(change func(*promotionrecord.Record), names ...string) digest.Digest {
		r := whole()
		change(&r)
		s, err := promotionrecord.New(r, names...)
		if err != nil {
			t.Fatal(err)
		}
		d, err := promotionrecord.Gist(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := gist(func(*promotionrecord.Record) {})
	same := gist(func(r *promotionrecord.Record) {
		r.Time, r.Job, r.Promoter, r.Manifest, r.Builder = r.Time.Add(time.Hour), promotionrecord.Job{}, promotionrecord.Promoter{}, promotionrecord.Resource{}, "x"
	})
	if !same.Equal(first) {
		t.Error("the same promotion, at another time, is taken for another")
	}
	for what, other := range map[string]digest.Digest{
		"another source":   gist(func(r *promotionrecord.Record) { r.Source += "x" }),
		"a tag more":       gist(func(r *promotionrecord.Record) { r.Tags = append(r.Tags, "latest") }),
		"one place more":   gist(func(*promotionrecord.Record) {}, "eu.example.test/lantern"),
		"another digest":   gist(func(r *promotionrecord.Record) { r.Digest = digest.Of(digest.SHA256, nil) }),
		"another main one": gist(func(r *promotionrecord.Record) { r.Destination += "x" }),
	} {
		if other.Equal(first) {
			t.Errorf("%s: taken for the same", what)
		}
	}
}

func FuzzParse(f *testing.F) {
	s, err := promotionrecord.New(whole(), "eu.example.test/lantern")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.Raw())
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := intoto.ParseOpen(raw)
		if err != nil {
			return
		}
		r, err := promotionrecord.Parse(s)
		if err != nil {
			return
		}
		again, err := promotionrecord.New(r, r.Destination)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", r, err)
		}
		if _, err := promotionrecord.Parse(again); err != nil {
			t.Fatal(err)
		}
	})
}
