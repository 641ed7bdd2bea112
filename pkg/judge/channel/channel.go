// Package channel verifies channel indexes: which release "latest" or "stable"
// means, who signed that, and whether a newer index replaced it.
//
// An index is accepted only if the identity in the policy's role "channel"
// signed it, it has not expired, and no index with a higher number was seen
// before. The caller remembers the last index that it saw: keep the bundle, and
// pass its index to Follows of the next one.
//
//	x, err := channel.Parse(evidence, policy)
//	err = errors.Join(x.Of(project), x.Fresh(now), x.Follows(seen))
//	release, err := x.Find("stable-1.31")
//
// The format is specified in attestations/channel/v1. This package does not
// verify the release itself: the index names the digest of a manifest, which
// has its own signature.
//
// Other projects should not import this package: it changes without notice.
package channel

import (
	"fmt"
	"maps"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// maxIssueDelay is how much later than its signature an index may claim to be
// issued. Its lifetime is counted from the issue time.
const maxIssueDelay = time.Hour

// skew is how far the clock of this machine may be behind.
const skew = 5 * time.Minute

// subject is the subject of all findings about an index.
const subject = "channels"

// Index is a channel index that an authorized signer signed. The zero Index
// means "no index": every index may follow it, and it has no channels.
type Index struct {
	said  channelindex.Index
	proof verdict.Proof
}

// Release is the release that a channel points to.
type Release struct {
	Version version.Version
	// Manifest is the digest of the bundle of its manifest. Another manifest
	// for the same version is refused, except for a later revision of this one.
	Manifest digest.Set
}

// Parse reads an index from verified evidence. It must be signed by the
// identity in the role "channel".
func Parse(e verify.Evidence, p policy.Policy) (Index, error) {
	proof, err := p.Judge(e, policy.Ask{Role: policy.Channels, Kind: channelindex.PredicateType, Subject: subject, Whole: true})
	if err != nil {
		return Index{}, err
	}
	said, err := channelindex.Parse(e.Statement())
	if err != nil {
		return Index{}, err
	}
	if said.Issued.After(e.SignedAt().Add(maxIssueDelay)) {
		return Index{}, &verdict.Error{Finding: verdict.Find(verdict.StatementParse, subject, "index %d claims to be issued after its signature", said.Number).
			Differ("at most "+maxIssueDelay.String()+" after "+e.SignedAt().Format(time.RFC3339), said.Issued.Format(time.RFC3339)).Citing(e.Bundle())}
	}
	return Index{said: said, proof: proof}, nil
}

// Of refuses the index of another project.
func (x Index) Of(project string) error {
	if x.said.Name != project {
		return &verdict.Error{Finding: verdict.Find("CHANNEL_FORK", subject, "the index is of another project").Differ(project, x.said.Name)}
	}
	return nil
}

// Number orders the indexes of a project: a higher number replaces a lower one.
// It is 0 for the zero Index.
func (x Index) Number() int { return x.said.Number }

// Proof says who signed the index, and when.
func (x Index) Proof() verdict.Proof { return x.proof }

// Fresh refuses an index that is not valid yet, or has expired.
func (x Index) Fresh(now time.Time) error {
	if x.said.Number == 0 {
		return verdict.Refuse(verdict.EvidenceMissing, subject, "no channel index")
	}
	if from := later(x.said.Issued, x.proof.SignedAt); from.After(now.Add(skew)) {
		return &verdict.Error{Finding: verdict.Find(verdict.Clock, subject, "index %d was issued after the time of judgement", x.said.Number).
			Differ("a clock at or after "+from.Format(time.RFC3339), now.Format(time.RFC3339))}
	}
	if !now.Before(x.said.Expires) {
		return &verdict.Error{Finding: verdict.Find("CHANNEL_EXPIRED", subject, "index %d has expired", x.said.Number).
			Differ("an index that is valid at "+now.Format(time.RFC3339), x.said.Expires.Format(time.RFC3339))}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Follows refuses an index of another project, one with a lower number than the
// index seen before, and one with the same number but other contents.
func (x Index) Follows(seen Index) error {
	switch {
	case seen.said.Number == 0:
		return nil
	case x.said.Name != seen.said.Name:
		return x.Of(seen.said.Name)
	case x.said.Number < seen.said.Number:
		return &verdict.Error{Finding: verdict.Find(verdict.ChannelStale, subject, "an index with a higher number was seen before").
			Differ(fmt.Sprint(seen.said.Number), fmt.Sprint(x.said.Number))}
	case x.said.Number == seen.said.Number && !same(x.said, seen.said):
		return &verdict.Error{Finding: verdict.Find("CHANNEL_FORK", subject, "two different indexes have number %d", x.said.Number).
			Differ(seen.proof.Bundle.String(), x.proof.Bundle.String())}
	}
	return nil
}

// same reports whether two indexes with the same number have the same contents.
// An index that was signed twice is one index.
func same(a, b channelindex.Index) bool {
	if !a.Issued.Equal(b.Issued) || !a.Expires.Equal(b.Expires) || len(a.Channels) != len(b.Channels) {
		return false
	}
	return maps.Equal(entries(a), entries(b)) && maps.EqualFunc(a.Manifests, b.Manifests, digest.Set.Equal)
}

func entries(x channelindex.Index) map[string]string {
	all := map[string]string{}
	for _, e := range x.Channels {
		all[e.Channel] = e.Version
	}
	return all
}

// Find returns the release that a channel points to.
func (x Index) Find(channel string) (Release, error) {
	name, is := entries(x.said)[channel]
	if !is {
		return Release{}, verdict.Refuse(verdict.EvidenceMissing, subject, "the index has no channel %q", channel)
	}
	v, err := version.Parse(name)
	return Release{Version: v, Manifest: x.said.Manifests[name]}, err
}

// Change is the difference between an index and the next one.
type Change struct {
	Name     string   // project name
	Channels []string // channels that point to Release from now on
	Release  Release
	Issued   time.Time
	Life     time.Duration
}

// Next returns the predicate of the next index and the manifests that it names.
// It refuses to move a channel to an older version, unless back reports true
// for the current version because that one was withdrawn.
func (x Index) Next(c Change, back func(version.Version) bool) (channelindex.Predicate, map[string]digest.Set, error) {
	next := channelindex.Predicate{Name: c.Name, Number: x.said.Number + 1, Issued: c.Issued, Expires: c.Issued.Add(c.Life)}
	all := entries(x.said)
	for _, name := range c.Channels {
		if before, err := x.Find(name); err == nil && c.Release.Version.Less(before.Version) && !back(before.Version) {
			return channelindex.Predicate{}, nil, &verdict.Error{Finding: verdict.Find(verdict.ChannelStale, subject, "channel %s would move to an older version, but its current version is not withdrawn", name).
				Differ(before.Version.String(), c.Release.Version.String())}
		}
		all[name] = c.Release.Version.String()
	}
	manifests := map[string]digest.Set{}
	for name, of := range all {
		next.Channels = append(next.Channels, channelindex.Entry{Channel: name, Version: of})
		manifests[of] = x.said.Manifests[of]
	}
	manifests[c.Release.Version.String()] = c.Release.Manifest
	return next, manifests, next.Validate()
}
