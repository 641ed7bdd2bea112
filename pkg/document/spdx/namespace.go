package spdx

import "github.com/waybill-release/waybill/pkg/value/digest"

// Distinct is the draft under a namespace that no other draft has: section 6.5
// demands one for each document, and two of the same bytes may still differ, in
// the version or the licences that they give. The namespace ends in a digest of
// all that the draft says, so that the same draft has the same one, in whichever
// form it is written.
//
// Documents that refer to each other before both are written can not be named
// so.
func (d Draft) Distinct() (Draft, error) {
	text, err := d.text()
	if err != nil {
		return Draft{}, encodeError(d, err)
	}
	const enough = 32 // hex digits, 128 bits
	d.Namespace += "-" + digest.Of(digest.SHA256, []byte(text)).Hex()[:enough]
	return d, nil
}
