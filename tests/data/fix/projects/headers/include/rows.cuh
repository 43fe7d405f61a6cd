#pragma once
struct Rows { float a[32][32]; };
