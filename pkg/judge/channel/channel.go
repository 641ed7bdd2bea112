// Package channel judges channel indexes: which release does "latest" or
// "stable" stand for, who says so, and is that the last word?
//
// An index answers only if the identity in the policy's role "channel" signed
// it, if it has not expired, and if no index of a higher number was seen
// before. Which was seen is the caller's to remember: keep the bundle, and
// hold the next against it.
//
//	x, err := channel.Parse(evidence, policy)
//	err = errors.Join(x.Of(project), x.Fresh(now), x.Follows(seen))
//	release, err := x.Find("stable-1.31")
//
// The wire form is specified under attestations/channel/v1. What the release
// itself proves is not judged here: the manifest whose digest the index names
// has a signature of its own.
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

// signing is how much later than it was signed an index may say that it was
// issued: its life is counted from then.
const signing = time.Hour

// skew is how far the clock of the machine may be behind.
const skew = 5 * time.Minute

// subject is what findings about an index are about.
const subject = "channels"

// Index is an index whose signer may sign one. The zero Index stands for none:
// every other follows it, and it answers nothing.
type Index struct {
	said  channelindex.Index
	proof verdict.Proof
}

// Release is what a channel stands for.
type Release struct {
	Version version.Version
	// Manifest are the bytes of the bundle of its manifest. Another manifest of
	// this version is not the one that is meant; a later revision of it can be.
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
	if said.Issued.After(e.SignedAt().Add(signing)) {
		return Index{}, &verdict.Error{Finding: verdict.Find(verdict.StatementParse, subject, "index %d says that it was issued after it was signed", said.Number).
			Differ("at most "+signing.String()+" after "+e.SignedAt().Format(time.RFC3339), said.Issued.Format(time.RFC3339)).Citing(e.Bundle())}
	}
	return Index{said: said, proof: proof}, nil
}

// Of refuses the index of another project.
func (x Index) Of(project string) error {
	if x.said.Name != project {
		return &verdict.Error{Finding: verdict.Find(verdict.ChannelFork, subject, "it is the index of another project").Differ(project, x.said.Name)}
	}
	return nil
}

// Number is the index's place in the order of indexes, 0 for the zero Index.
func (x Index) Number() int { return x.said.Number }

// Proof says who signed the index, and when.
func (x Index) Proof() verdict.Proof { return x.proof }

// Fresh refuses an index at a time when it does not stand.
func (x Index) Fresh(now time.Time) error {
	if x.said.Number == 0 {
		return verdict.Refuse(verdict.EvidenceMissing, subject, "there is no index")
	}
	if from := later(x.said.Issued, x.proof.SignedAt); from.After(now.Add(skew)) {
		return &verdict.Error{Finding: verdict.Find(verdict.Clock, subject, "index %d was issued after the time of judgement", x.said.Number).
			Differ("a clock at or after "+from.Format(time.RFC3339), now.Format(time.RFC3339))}
	}
	if !now.Before(x.said.Expires) {
		return &verdict.Error{Finding: verdict.Find(verdict.ChannelExpired, subject, "index %d has expired", x.said.Number).
			Differ("an index that stands at "+now.Format(time.RFC3339), x.said.Expires.Format(time.RFC3339))}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Follows refuses an index of another project, of a lower number than the one
// that was seen, and one of the same number that says something else.
func (x Index) Follows(seen Index) error {
	switch {
	case seen.said.Number == 0:
		return nil
	case x.said.Name != seen.said.Name:
		return x.Of(seen.said.Name)
	case x.said.Number < seen.said.Number:
		return &verdict.Error{Finding: verdict.Find(verdict.ChannelStale, subject, "an index of a higher number was seen before").
			Differ(fmt.Sprint(seen.said.Number), fmt.Sprint(x.said.Number))}
	case x.said.Number == seen.said.Number && !same(x.said, seen.said):
		return &verdict.Error{Finding: verdict.Find(verdict.ChannelFork, subject, "there are two of number %d that say different things", x.said.Number).
			Differ(seen.proof.Bundle.String(), x.proof.Bundle.String())}
	}
	return nil
}

// same reports whether two indexes of one number say the same, whoever signed
// them again: an index that is signed twice is one index.
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

// Find is the release that a channel stands for.
func (x Index) Find(channel string) (Release, error) {
	name, is := entries(x.said)[channel]
	if !is {
		return Release{}, verdict.Refuse(verdict.EvidenceMissing, subject, "the index has no channel %q", channel)
	}
	v, err := version.Parse(name)
	return Release{Version: v, Manifest: x.said.Manifests[name]}, err
}

// Change is what the next index says that this one does not.
type Change struct {
	Name     string   // of the project
	Channels []string // that stand for the release from now on
	Release  Release
	Issued   time.Time
	Life     time.Duration
}

// Next makes the predicate of the next index and the manifests that it names.
// A channel that goes to an older version than it stood for is refused, unless
// back says that it may: that one was withdrawn.
func (x Index) Next(c Change, back func(version.Version) bool) (channelindex.Predicate, map[string]digest.Set, error) {
	next := channelindex.Predicate{Name: c.Name, Number: x.said.Number + 1, Issued: c.Issued, Expires: c.Issued.Add(c.Life)}
	all := entries(x.said)
	for _, name := range c.Channels {
		if before, err := x.Find(name); err == nil && c.Release.Version.Less(before.Version) && !back(before.Version) {
			return channelindex.Predicate{}, nil, &verdict.Error{Finding: verdict.Find(verdict.ChannelStale, subject, "channel %s would go back, and what it stands for was not withdrawn", name).
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
