package headroom

import (
	"cmp"
	"slices"
)

// refund decides that units of a charge come back, in one meter.
func (k rules) refund(r RefundRequest) intent {
	of := Request{Subject: r.Subject, Meter: r.Meter, Now: r.Now}
	also := Request{More: r.More}.also()
	began := Request{Meter: r.Meter, Operation: r.Operation, Began: r.Began}
	return func(v View) (verdict, error) {
		if have, ok := v.Records[r.ID]; ok {
			if have.Kind != KindRefund || have.Of != r.Operation || r.Units != 0 && r.Units != have.Cost || !slices.Equal(have.Also, also) {
				return verdict{}, conflict("id %q stands for %s and now asks for another refund", r.ID, have.what())
			}
			return k.replay(v, of, have, ReasonRefunded)
		}
		charged, ok := v.Records[r.Operation]
		if !ok {
			return verdict{}, cmp.Or[error](k.tooOld(v, began), unknown(r.Operation, "refunded"))
		}
		if charged.Kind != KindDeduct && charged.Kind != KindSettled {
			return verdict{}, conflict(
				"operation %q stands for %s: only a charge can be refunded", r.Operation, charged.what())
		}
		of := of
		left := charged.Cost - charged.Refunded
		of.Cost = cmp.Or(r.Units, left)
		if of.Cost > left {
			return verdict{}, invalid(
				"a refund of %d of operation %q: of its %d units %d were refunded before",
				of.Cost, r.Operation, charged.Cost, charged.Refunded)
		}
		less := charged
		less.Refunded += of.Cost
		c := k.begin(v, of.key(), r.Now)
		c.Records = []RecordStep{
			{ID: r.ID, Is: &Record{Kind: KindRefund, Cost: of.Cost, Of: r.Operation, Also: also}},
			{ID: r.Operation, Was: &charged, Is: &less},
		}
		var err error
		if c.Steps, c.Grants, err = giveBack(v, &less, of.Cost); err != nil {
			return verdict{}, err
		}
		return k.allow(v, of, c, nil, ReasonRefunded)
	}
}

// refundWhole decides that all that is left of a charge comes back. If the charge has parts in
// other meters, or a refund under this id had, the error is *elsewhere.
func (k rules) refundWhole(r RefundRequest) intent {
	refund := k.refund(r)
	return func(v View) (verdict, error) {
		have, again := v.Records[r.ID]
		if !again {
			have = v.Records[r.Operation]
		}
		if len(have.Also) > 0 {
			return verdict{}, &elsewhere{have.Also}
		}
		return refund(v)
	}
}

// refundsAgain answers for a meter that has forgotten a refund which another one remembers.
func (k rules) refundsAgain(v View, r Request, have Record) (verdict, error) {
	return k.replay(v, r, have.of(r.Cost), ReasonRefunded)
}
