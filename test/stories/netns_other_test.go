//go:build !linux

package stories

import "errors"

const inside = "WAYBILL_STORIES_INSIDE"

func demoInside([]string) error { return errors.New("network namespaces are Linux's") }
