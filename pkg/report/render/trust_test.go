package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func embedded() render.TrustRoot {
	root := trust.Embedded()
	return render.TrustRoot{
		Root: root, Source: "a place\x1b[2J", Date: root.Date(), Now: root.Date().Add(49 * time.Hour),
		Metadata: "root 15", Expires: root.Date().AddDate(0, 0, 7),
	}
}

func TestTrustRootTable(t *testing.T) {
	var out bytes.Buffer
	if err := embedded().Write(&out, render.Table); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		trust.Embedded().Digest().String(), "2 days ago", "root 15; valid until", "no more", "yes",
		"https://rekor.sigstore.dev", "2021-03-07 – 2022-12-31", "2022-10-20 – …",
	} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("it does not say %q:\n%s", says, out.String())
		}
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), trust.LabMark) {
		t.Errorf("it says too much:\n%q", out.String())
	}
}

func TestTrustRootJSON(t *testing.T) {
	var out bytes.Buffer
	if err := embedded().Write(&out, render.JSON); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema      string
		Digest      string
		Date        time.Time
		Authorities []struct{ Kind, KeyID string }
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	root := trust.Embedded()
	if got.Schema != render.TrustSchema || got.Digest != root.Digest().String() || !got.Date.Equal(root.Date()) ||
		len(got.Authorities) != len(root.Authorities()) {
		t.Errorf("%+v", got)
	}
}

// What nobody knows is not said.
func TestTrustRootOfUnknownAge(t *testing.T) {
	var out bytes.Buffer
	r := render.TrustRoot{Root: trust.Embedded(), Source: "root.json", Now: time.Unix(1, 0)}
	if err := r.Write(&out, render.Table); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Contains(s, "current on") || strings.Contains(s, "metadata ") || !strings.Contains(s, "not yet") {
		t.Errorf("it says:\n%s", s)
	}
	out.Reset()
	if err := r.Write(&out, render.JSON); err != nil || strings.Contains(out.String(), `"date"`) {
		t.Errorf("%v, it says:\n%s", err, out.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestTrustRootFails(t *testing.T) {
	if err := embedded().Write(&bytes.Buffer{}, "html"); verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("an unknown format: %v", err)
	}
	for _, f := range []render.Format{render.Table, render.JSON} {
		if embedded().Write(full{}, f) == nil {
			t.Errorf("%s: a write that failed was not reported", f)
		}
	}
}
