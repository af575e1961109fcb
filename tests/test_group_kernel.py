"""The members of groups, against torch's comparisons."""

import pytest
import torch

from laconic.kernels.triton.groups import listed_by_group

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.usefixtures("interpreted")
def test_members_of_groups_are_listed_with_those_of_no_group_last():
    torch.manual_seed(0)
    groups = torch.randint(12, (3000,)).to(DEVICE)  # of 11; the last is none
    members, bounds = listed_by_group(groups, 11)
    assert bounds.tolist() == [int((groups < group).sum()) for group in range(12)]
    for group in range(12):
        last = len(groups) if group == 11 else int(bounds[group + 1])
        own = members[int(bounds[group]) : last].sort().values
        assert torch.equal(own, (groups == group).nonzero().flatten())


@pytest.mark.usefixtures("interpreted")
def test_there_may_be_no_member_at_all():
    members, bounds = listed_by_group(torch.zeros(0, dtype=torch.int64, device=DEVICE), 3)
    assert len(members) == 0
    assert bounds.tolist() == [0, 0, 0, 0]
