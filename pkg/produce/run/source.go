package run

import (
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// Source is a commit with the configuration that was read from it.
type Source struct {
	Commit git.Commit
	Tag    git.Tag // who signed the tag that named the commit
	Config []byte
	Lock   []byte
	Pins   plan.Lock
}

// resources are what provenance names of the source. The commit that was
// built comes first: it is the one that readers take.
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

// tag is what provenance says of the tag's signer: nothing if there is no tag.
func (s Source) tag() *provenance.SignedTag {
	if s.Tag == (git.Tag{}) {
		return nil
	}
	return &provenance.SignedTag{Signature: s.Tag.Signature, Signer: s.Tag.Signer, NotVerified: s.Tag.NotVerified}
}
