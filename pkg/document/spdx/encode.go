package spdx

import (
	"cmp"
	"fmt"

	"github.com/spdx/tools-golang/spdx/v2/common"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Encode writes d. It refuses whatever [Parse] would refuse, so the output can
// always be parsed.
func Encode(d Draft) ([]byte, error) {
	text, err := d.text()
	if err != nil {
		return nil, encodeError(d, err)
	}
	if len(text) > MaxSize {
		return nil, verdict.Refuse(verdict.Limit, d.Name, "the SPDX document has %d bytes, the limit is %d", len(text), MaxSize)
	}
	m, found := read(text)
	if _, err := accept(m, found); err != nil {
		return nil, encodeError(d, err)
	}
	return []byte(text), nil
}

func encodeError(d Draft, err error) error {
	return verdict.Wrap(verdict.StatementParse, d.Name, fmt.Errorf("encoding SPDX document: %w", err))
}

// orNothing returns s, or NOASSERTION if it is empty.
func orNothing(s string) string {
	return cmp.Or(s, NoAssertion)
}

func checksums(s digest.Set) (list []common.Checksum) {
	if !s.SHA256.IsZero() {
		list = append(list, common.Checksum{Algorithm: common.SHA256, Value: s.SHA256.Hex()})
	}
	if !s.SHA512.IsZero() {
		list = append(list, common.Checksum{Algorithm: common.SHA512, Value: s.SHA512.Hex()})
	}
	return list
}

// Distinct returns the draft with a unique namespace: section 6.5 requires one
// for each document, and two documents about the same bytes may still differ,
// in the version or the licences that they give. The namespace ends with a
// digest of the whole content, so equal drafts have the same one, in either
// form.
//
// It cannot be used for documents that refer to each other before both are
// written.
func (d Draft) Distinct() (Draft, error) {
	text, err := d.text()
	if err != nil {
		return Draft{}, encodeError(d, err)
	}
	const enough = 32 // hex digits, 128 bits
	d.Namespace += "-" + digest.Of(digest.SHA256, []byte(text)).Hex()[:enough]
	return d, nil
}
