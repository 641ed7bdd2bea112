package spdx

import "github.com/waybill-release/waybill/pkg/value/digest"

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
