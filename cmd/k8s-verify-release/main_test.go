package main

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/checkacts"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestActsCanBeDone(t *testing.T) {
	checkacts.All(t, verdict.Consumer, checkacts.Each(command()))
}
