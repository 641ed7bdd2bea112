package run

import (
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// Source is a commit with its configuration.
type Source struct {
	Commit git.Commit
	Tag    git.Tag // who signed the tag that named the commit
	Config []byte
	Lock   []byte
	Pins   plan.Lock
}

// resources are the source in provenance. The commit that was built comes
// first: readers use that one.
func (s Source) resources() []provenance.Resource {
	c := s.Commit
	list := []provenance.Resource{provenance.Commit(c.Repository, c.AskedFor(), c.Commit, c.Tree)}
	if c.Release != "" {
		list = append(list, provenance.ReleaseCommit(c.Repository, c.AskedFor(), c.Release, c.Tree))
	}
	if c.Tag != "" {
		list = append(list, provenance.Tag(c.Repository, c.AskedFor(), c.Tag))
	}
	return list
}

// tag describes the tag's signer in provenance; nil without a tag.
func (s Source) tag() *provenance.SignedTag {
	if s.Tag == (git.Tag{}) {
		return nil
	}
	return &provenance.SignedTag{Signature: s.Tag.Signature, Signer: s.Tag.Signer, NotVerified: s.Tag.NotVerified}
}
