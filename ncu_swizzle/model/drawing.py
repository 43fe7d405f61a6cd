"""What ``banks --show`` writes as HTML, SVG or JSON: the bank maps, or the picture that was asked for instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.errors import UsageError
from ncu_swizzle.smem import bankload, bankmap, pictures
from ncu_swizzle.smem.bankmap import BankMap

if TYPE_CHECKING:
    from ncu_swizzle.render.view.banks import Board

MAPS, PHASES, BITS, PLACES = "map", "phases", "bits", "places"


@dataclass(frozen=True)
class Drawn:
    """What to draw of some maps: `show` is one of the above; `row` is for bits, `request` for phases."""

    show: str = MAPS
    row: int | None = None
    request: int | None = None

    def html(self, maps: Sequence[BankMap], title: str) -> str:
        """Return one HTML document; raise UsageError if there is nothing to draw."""
        from ncu_swizzle.render import page
        from ncu_swizzle.render.view import banks, bit_picture

        if self.show == BITS:
            return page.render_bits(bit_picture.bit_picture(self._bits(maps)), title)
        if self.show == PLACES:
            return page.render_board(_places(maps), title)
        if self.show == PHASES:
            return page.render_board(banks.phases(maps, self._request(maps))[0], title)
        return page.render_banks(maps, title)

    def svg(self, maps: Sequence[BankMap], title: str) -> str:
        """Return one SVG, with a map for each phase; raise UsageError if there is nothing to draw."""
        from ncu_swizzle.render import page
        from ncu_swizzle.render.view import banks, bit_picture

        if self.show == BITS:
            return page.render_bits_svg(bit_picture.bit_picture(self._bits(maps)), title)
        if self.show == PLACES:
            return page.render_board_svg(_places(maps), title)
        if self.show == PHASES:
            return page.render_board_svg(banks.phases(maps, self._request(maps))[1], title)
        return page.render_banks_svg(maps, title)

    def data(self, maps: Sequence[BankMap]) -> object:
        """Return the picture as JSON-serializable data; raise UsageError if there is nothing to draw."""
        if self.show == BITS:
            return asdict(self._bits(maps))
        if self.show == PLACES:
            return [{"rows": held.rows.tolist(), "columns": held.columns.tolist()} for held in map(_memory, maps)]
        request = self._request(maps)
        return [[asdict(load) for load in bankload.loads(each, request) if load.request == request] for each in maps]

    def _bits(self, maps: Sequence[BankMap]) -> pictures.Bits:
        return pictures.bits(maps[-1].mapping, self.row)

    def _request(self, maps: Sequence[BankMap]) -> int:
        for bank_map in maps:
            if bank_map.access is None:
                raise UsageError("--show phases needs an access", "--access row, column or ldmatrix")
            bankmap.phases(bank_map.access, bank_map.mapping, self.request)  # raises if there is no such request
        return bankload.worst_request(maps) if self.request is None else self.request


def _memory(bank_map: BankMap) -> pictures.Places:
    return pictures.places(bank_map.mapping)


def _places(maps: Sequence[BankMap]) -> Board:
    from ncu_swizzle.render.view import place_picture

    return place_picture.board([_memory(each) for each in maps], [each.title for each in maps])
