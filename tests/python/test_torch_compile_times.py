"""How ucudnn.torch.compile scales the times of nodes to those of whole passes."""

import pytest

from ucudnn.torch.compiled.calibrating import Measured, Scales, ratios


def measured(forward, backward):
    return Measured(forward + backward + 1.0, forward, backward, 0)


def after(told, expected, scales=Scales(), others=()):
    return scales.times(ratios(told, expected, scales, others))


def test_what_is_computed_again_takes_the_scale_of_the_forward_pass():
    # 80 of 100 in the forward pass, and 80 of 100 again in the backward pass's 240.
    scales = after(measured(80.0, 240.0), (100.0, 200.0, 100.0))
    assert scales == pytest.approx((0.8, 0.8, 0.8))


def test_passes_without_anything_again_tell_their_own_scales():
    scales = after(measured(50.0, 300.0), (100.0, 200.0, 0.0))
    assert scales == pytest.approx((0.5, 1.5, 0.5))


def test_two_plans_tell_what_computing_again_takes():
    # Nodes of 100 more took 60 more.
    other = (20.0, 192.0)
    scales = after(measured(80.0, 252.0), (100.0, 200.0, 120.0), others=[other])
    assert scales == pytest.approx((0.8, 0.9, 0.6))


def test_plans_that_hardly_differ_tell_nothing():
    other = (119.0, 100.0)
    scales = after(measured(80.0, 252.0), (100.0, 200.0, 120.0), others=[other])
    assert scales.again == pytest.approx(0.8)


def test_scales_that_were_right_stay():
    scales = Scales(0.8, 0.9, 0.6)
    told = measured(80.0, 180.0 + 60.0)
    assert after(told, (80.0, 180.0, 60.0), scales, [(200.0, 300.0)]) == pytest.approx(
        scales
    )


def test_a_backward_pass_keeps_a_part_for_itself():
    scales = after(measured(100.0, 100.0), (100.0, 100.0, 400.0))
    assert scales == pytest.approx((1.0, 0.25, 0.1875))
