package intoto_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// envelope carries the valid statement, with a key that nobody knows.
func envelope() string {
	return fmt.Sprintf(`{"payloadType":"application/vnd.in-toto+json","payload":"%s","signatures":[{"keyid":"k","sig":"+/+/AA=="}],"extra":1}`,
		base64.StdEncoding.EncodeToString([]byte(valid())))
}

func TestParseEnvelope(t *testing.T) {
	e, err := intoto.ParseEnvelope([]byte(envelope()))
	if err != nil {
		t.Fatal(err)
	}
	if e.PayloadType != intoto.PayloadType || string(e.Payload) != valid() || string(e.Raw()) != envelope() {
		t.Errorf("read as %q %q", e.PayloadType, e.Payload)
	}
	if len(e.Signatures) != 1 || e.Signatures[0].KeyID != "k" || !bytes.Equal(e.Signatures[0].Sig, []byte{0xfb, 0xff, 0xbf, 0}) {
		t.Errorf("signatures %v", e.Signatures)
	}
	if want := fmt.Sprintf("DSSEv1 28 application/vnd.in-toto+json %d %s", len(valid()), valid()); string(e.PAE()) != want {
		t.Errorf("PAE %q, want %q", e.PAE(), want)
	}
	if s, err := e.Statement(); err != nil || string(s.Raw()) != valid() {
		t.Errorf("statement %v, %v", s, err)
	}
	e.PayloadType = "application/json"
	if _, err := e.Statement(); verdict.FindingOf("", err).Code != verdict.MaterialKind {
		t.Errorf("another payload type: %v", err)
	}
}

func TestParseEnvelopeForms(t *testing.T) {
	const sig = `"+/+/AA=="`
	rows := []struct {
		name     string
		old, new string
		code     verdict.Code // empty when accepted
	}{
		{"the alphabet for URLs", sig, `"-_-_AA=="`, ""},
		{"two signatures", `[{`, `[{"sig":"AA=="},{`, ""},
		{"no signature", `{"keyid":"k","sig":` + sig + `}`, ``, ""},
		{"both alphabets", sig, `"+_+_AA=="`, verdict.BundleParse},
		{"no padding", sig, `"+/+/AA"`, verdict.BundleParse},
		{"bits left over", sig, `"+/+/AB=="`, verdict.BundleParse},
		{"a line end", sig, `"+/+/\nAA=="`, verdict.BundleParse},
		{"a space", sig, `"+/+/ AA=="`, verdict.BundleParse},
		{"an empty signature", sig, `""`, verdict.BundleParse},
		{"a second payload", `"extra":1`, `"payload":"AA=="`, verdict.BundleParse},
		{"a payload in another case", `"extra":1`, `"Payload":"AA=="`, verdict.BundleParse},
		{"no payload type", `"application/vnd.in-toto+json"`, `""`, verdict.BundleParse},
		{"no list of signatures", `"signatures":[{"keyid":"k","sig":` + sig + `}],`, ``, verdict.BundleParse},
		{"too many signatures", `[{`, `[` + strings.Repeat(`{"sig":"AA=="},`, intoto.MaxSignatures) + `{`, verdict.Limit},
		{"trailing data", `"extra":1}`, `"extra":1}{}`, verdict.BundleParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := strings.Replace(envelope(), r.old, r.new, 1)
			if changed == envelope() {
				t.Fatalf("%q is not in the envelope", r.old)
			}
			e, err := intoto.ParseEnvelope([]byte(changed))
			switch {
			case r.code == "" && err != nil:
				t.Error(err)
			case r.code != "" && (err == nil || verdict.FindingOf("", err).Code != r.code || e.Payload != nil):
				t.Errorf("%v, want %s", err, r.code)
			}
		})
	}
}

func TestLines(t *testing.T) {
	one := envelope()
	rows := []struct {
		name string
		text string
		want int // 0 is refused
	}{
		{"one", one, 1},
		{"one with a line end", one + "\n", 1},
		{"two", one + "\n" + one + "\n", 2},
		{"two with the line ends of another system", one + "\r\n" + one + "\r\n", 2},
		{"nothing", "", 0},
		{"an empty line between", one + "\n\n" + one, 0},
		{"an empty line at the end", one + "\n\n", 0},
		{"a line that is no envelope", one + "\n{}\n", 0},
		{"two on one line", one + one, 0},
		{"too many", strings.Repeat("\n", intoto.MaxLines+1), 0},
	}
	for _, r := range rows {
		list, err := intoto.Lines([]byte(r.text))
		for _, line := range list {
			if _, bad := intoto.ParseEnvelope(line); bad != nil {
				list, err = nil, bad
			}
		}
		if len(list) != r.want || (err == nil) != (r.want > 0) {
			t.Errorf("%s: %d envelopes, %v, want %d", r.name, len(list), err, r.want)
		}
	}
}

func TestMangledEnvelopesAreRefused(t *testing.T) {
	for i := range len(envelope()) {
		if _, err := intoto.ParseEnvelope([]byte(envelope()[:i])); err == nil {
			t.Errorf("accepted the first %d bytes", i)
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte(envelope()))
	f.Add([]byte(strings.Replace(envelope(), "+/+/", "-_-_", 1)))
	f.Add([]byte(`{"payloadType":"t","payload":"AA==","signatures":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() { _, _ = intoto.ParseEnvelope(raw) })
		e, err := intoto.ParseEnvelope(raw)
		if err != nil {
			return
		}
		if !bytes.Equal(e.Raw(), raw) || len(e.Payload) == 0 || len(e.Signatures) > intoto.MaxSignatures {
			t.Fatal("not what was read")
		}
		// Base64 has one spelling in its alphabet: the text is in the envelope.
		std, url := base64.StdEncoding.EncodeToString(e.Payload), base64.URLEncoding.EncodeToString(e.Payload)
		if text := string(raw); !strings.Contains(text, std) && !strings.Contains(text, url) && !strings.Contains(text, `\`) {
			t.Fatalf("payload %x was written in another way", e.Payload)
		}
	})
}
