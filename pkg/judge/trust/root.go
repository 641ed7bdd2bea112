// Package trust parses trust roots: which certificate authorities, logs and
// timestamp authorities are trusted.
//
// A [Root] is immutable and has a digest, so that a verdict can name the root
// it depends on. The caller reads roots from files or from TUF; one root, that
// of the public-good instance, is [Embedded] here. pkg/judge/verify uses the
// root, and checks that each key is used within its time window.
//
//	root, err := trust.Parse(trustedRootJSON)
//	fmt.Println(root.Digest())
//
// Format: Sigstore trusted_root.json, media type version 0.1 and later.
package trust

import (
	_ "embed" // for the embedded root and its page
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The limits of a trusted root file. The public-good one has some 200 values.
const (
	MaxSize   = 4 << 20
	maxValues = 20_000
)

// LabMark is in the certificates of all authorities of a lab.
const LabMark = "INSECURE LAB"

// Root is a parsed trust root. The zero Root trusts no authority.
type Root struct {
	raw         []byte
	digest      digest.Digest
	authorities []Authority
	date        time.Time
	chain       []byte
}

// Parse parses a Sigstore trusted root. It refuses a root without any
// authority. A root may lack a kind of authority: evidence that needs one is
// then refused at verification, so a root for signatures with timestamps needs
// no log.
func Parse(raw []byte) (Root, error) {
	if len(raw) > MaxSize {
		return Root{}, verdict.Refuse(verdict.TrustRootParse, "trust root", "%d bytes, the limit is %d", len(raw), MaxSize)
	}
	if err := strictjson.Check(raw, strictjson.MaxValues(maxValues)); err != nil {
		return Root{}, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	if err := checkPeriods(raw); err != nil {
		return Root{}, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	parsed, err := root.NewTrustedRootFromJSON(raw)
	if err != nil {
		return Root{}, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	r := Root{raw: slices.Clone(raw), digest: digest.Of(digest.SHA256, raw), authorities: authorities(parsed)}
	if len(r.authorities) == 0 {
		return Root{}, verdict.Refuse(verdict.TrustRootParse, "trust root", "the trust root contains no authority and no log")
	}
	for _, a := range r.authorities {
		if !a.To.IsZero() && a.To.Before(a.From) {
			return Root{}, verdict.Refuse(verdict.TrustRootParse, "trust root", "the %s %q ends before it begins", a.Kind, a.URI)
		}
	}
	return r, nil
}

// checkPeriods refuses the zero time, which would be read as "not set": an
// authority that ends then would never end.
func checkPeriods(raw []byte) error {
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err
	}
	return checkPeriod("", tree)
}

func checkPeriod(key string, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if err := checkPeriod(name, inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range value {
			if err := checkPeriod("", inner); err != nil {
				return err
			}
		}
	case string:
		if t, err := time.Parse(time.RFC3339, value); (key == "start" || key == "end") && err == nil && t.IsZero() {
			return fmt.Errorf("%s %q would mean that no time is set", key, value)
		}
	}
	return nil
}

// Raw is the file as it was read.
func (r Root) Raw() []byte { return slices.Clone(r.raw) }

// Digest identifies the root by its bytes.
func (r Root) Digest() digest.Digest { return r.digest }

// IsZero reports whether r is the zero Root.
func (r Root) IsZero() bool { return len(r.raw) == 0 }

// Authorities lists the trusted authorities with their kinds and time windows.
func (r Root) Authorities() []Authority { return slices.Clone(r.authorities) }

// IsLogless reports whether the root has certificate and timestamp authorities but no
// logs: then timestamps alone prove the time, as in GitHub's own instance.
func (r Root) IsLogless() bool {
	has := slice.Set(r.authorities, func(a Authority) Kind { return a.Kind })
	return has[CertificateAuthority] && has[TimestampAuthority] && len(has) == 2
}

// IsLab reports whether any certificate authority belongs to a lab, whose keys
// are public.
func (r Root) IsLab() bool {
	return slices.ContainsFunc(r.authorities, func(a Authority) bool { return a.Lab })
}

//go:embed embedded/trusted_root.json
var embeddedRoot []byte

//go:embed embedded/README.md
var embeddedPage string

// embeddedDate finds the date in the page that make trust-refresh writes.
var embeddedDate = pattern.Lazy(`(?m)^\| date \| ([0-9]{4}-[0-9]{2}-[0-9]{2}) \|$`)

// Embedded is the trust root of the Sigstore public-good instance in this
// program, for verification without a network. [Root.Date] is its date: it does
// not contain authorities added later, and still contains those removed later.
func Embedded() Root {
	r, err := Parse(embeddedRoot)
	if err != nil {
		panic(fmt.Sprintf("trust: the embedded root: %v", err))
	}
	row := embeddedDate().FindStringSubmatch(embeddedPage)
	if row == nil {
		panic("trust: the page of the embedded root names no date")
	}
	if r.date, err = time.Parse(time.DateOnly, row[1]); err != nil {
		panic(fmt.Sprintf("trust: the date of the embedded root: %v", err))
	}
	return r
}

// Date is when the root was current, in UTC: that of an [Embedded] one, and that
// which [Root.CurrentOn] gave. It is zero for any other root, because a file does
// not contain its age.
func (r Root) Date() time.Time { return r.date }

// Chained is the same root, with the signatures that lead to it from an older root, as
// package tuf reads them.
func (r Root) Chained(chain []byte) Root {
	r.chain = chain
	return r
}

// Chain is what [Root.Chained] gave; nil for any other root.
func (r Root) Chain() []byte { return r.chain }

// CurrentOn is the same root, verified to have been current at a time.
func (r Root) CurrentOn(date time.Time) Root {
	r.date = date.UTC()
	return r
}
