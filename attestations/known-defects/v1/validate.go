package knowndefects

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxLife is the longest lifetime of a list, so that an unmaintained one stops
// explaining findings.
const maxLife = 400 * 24 * time.Hour

// The limits of the contents.
const (
	maxEntries = 1000
	maxText    = 300
	maxSource  = 1024
)

// names matches the names of lists and defects, which can be typed after a
// flag.
var names = pattern.Lazy(`\A[a-z0-9][a-z0-9._-]{0,63}\z`)

// Validate refuses a list that could be read in two ways, that never expires,
// or that has parts without effect.
func (p Predicate) Validate() error {
	switch {
	case !names().MatchString(p.Name):
		return fmt.Errorf("name %q: want up to 64 of lower-case letters, digits and ._-", p.Name)
	case p.Sequence < 1:
		return fmt.Errorf("sequence %d: numbers start at 1, and each revision has a higher one", p.Sequence)
	case p.Issued.IsZero() || !p.Expires.After(p.Issued):
		return fmt.Errorf("issued %s, expires %s: want an expiry after the issue time", p.Issued.Format(time.RFC3339), p.Expires.Format(time.RFC3339))
	case p.Expires.Sub(p.Issued) > maxLife:
		return fmt.Errorf("the lifetime is %s, the limit is %s", p.Expires.Sub(p.Issued), maxLife)
	case len(p.Defects) == 0 && len(p.Withdrawals) == 0:
		return fmt.Errorf("the list has neither defects nor withdrawals")
	}
	if err := listed("defects", p.Defects); err != nil {
		return err
	}
	if err := listed("withdrawals", p.Withdrawals); err != nil {
		return err
	}
	ids := map[string]bool{}
	for i, d := range p.Defects {
		if ids[d.ID] {
			return at("defect", i, d.ID, fmt.Errorf("the id is used twice"))
		}
		ids[d.ID] = true
		if err := at("defect", i, d.ID, d.validate()); err != nil {
			return err
		}
	}
	for i, w := range p.Withdrawals {
		if err := at("withdrawal", i, w.Version, w.validate()); err != nil {
			return err
		}
	}
	return nil
}

// listed refuses a list that is present and empty, or too long. An absent list
// is nil.
func listed[T any](name string, list []T) error {
	if list != nil && len(list) == 0 {
		return fmt.Errorf("%s: empty; leave it out", name)
	}
	if len(list) > maxEntries {
		return fmt.Errorf("%s: %d entries, the limit is %d", name, len(list), maxEntries)
	}
	return nil
}

func (d Defect) validate() error {
	if !names().MatchString(d.ID) {
		return fmt.Errorf("id: want up to 64 of lower-case letters, digits and ._-")
	}
	if err := d.Versions.validate(); err != nil {
		return err
	}
	if len(d.Artifacts) == 0 {
		return fmt.Errorf("artifacts: empty; list each artifact")
	}
	if err := listed("artifacts", d.Artifacts); err != nil {
		return err
	}
	for i, name := range d.Artifacts {
		if err := releasemanifest.CheckName(name); err != nil {
			return fmt.Errorf("artifacts: %w", err)
		}
		if slices.Contains(d.Artifacts[:i], name) {
			return fmt.Errorf("artifacts: %q is listed twice", name)
		}
	}
	if d.Code.Fix() == "" {
		return fmt.Errorf("code %q is unknown in this version", d.Code)
	}
	if !oneline.Is(d.Explanation, maxText) {
		return fmt.Errorf("explanation: want one line of up to %d bytes", maxText)
	}
	if err := listed("digests", d.Digests); err != nil {
		return err
	}
	for _, one := range d.Digests {
		if one.Algorithm() != digest.SHA256 {
			return fmt.Errorf("digests: want sha256 digests")
		}
	}
	return checkSource(d.Source)
}

func (v Versions) validate() error {
	if v.List != nil {
		if len(v.List) == 0 || len(v.List) > maxEntries || v.From != "" || v.Until != "" {
			return fmt.Errorf("versions: want a list of up to %d, or a range, not both", maxEntries)
		}
		for i, text := range v.List {
			if _, err := version.Parse(text); err != nil {
				return fmt.Errorf("versions: %w", err)
			}
			if slices.Contains(v.List[:i], text) {
				return fmt.Errorf("versions: %s is listed twice", text)
			}
		}
		return nil
	}
	from, err := version.Parse(v.From)
	if err != nil {
		return fmt.Errorf("versions: from: %w", err)
	}
	until, err := version.Parse(v.Until)
	if err != nil {
		return fmt.Errorf("versions: until: %w", err)
	}
	if !from.Less(until) {
		return fmt.Errorf("versions: the range from %s to before %s is empty", from, until)
	}
	return nil
}

func (w Withdrawal) validate() error {
	if _, err := version.Parse(w.Version); err != nil {
		return fmt.Errorf("version: %w", err)
	}
	if w.Artifact != "" {
		if err := releasemanifest.CheckName(w.Artifact); err != nil {
			return fmt.Errorf("artifact: %w", err)
		}
	}
	switch {
	case !w.Digest.IsZero() && w.Digest.Algorithm() != digest.SHA256:
		return fmt.Errorf("digest: want a sha256 digest")
	case !oneline.Is(w.Reason, maxText):
		return fmt.Errorf("reason: want one line of up to %d bytes", maxText)
	case w.Since.IsZero():
		return fmt.Errorf("since: want the time of the withdrawal")
	}
	return checkSource(w.Source)
}

// checkSource refuses a source that cannot be looked up.
func checkSource(source string) error {
	u, err := url.Parse(source)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(source) > maxSource {
		return fmt.Errorf("source %q: want an https address with more information", source)
	}
	return nil
}
