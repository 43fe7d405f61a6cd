// What arithmetic.cu runs and bench/recording/record_arithmetic.cu names: one kernel a group, one X a result.
// S(op): f32 of two or three, H: two halves in a word, D: double. N is how many operands.
#define ROUND2(F, op, end) F(op ".rn" end) F(op ".rz" end) F(op ".rm" end) F(op ".rp" end)
#define KINDS(F, op) ROUND2(F, op, ".f32") ROUND2(F, op, ".ftz.f32") ROUND2(F, op, ".sat.f32") ROUND2(F, op, ".ftz.sat.f32")

#define SINGLE2(F) KINDS(F, "add") KINDS(F, "mul") F("sub.rn.f32") \
    F("min.f32") F("max.f32") F("min.ftz.f32") F("max.NaN.f32") F("min.ftz.NaN.f32") F("min.xorsign.abs.f32") \
    F("div.rn.f32") F("div.rn.ftz.f32") F("div.full.f32") F("div.approx.f32") F("div.approx.ftz.f32") \
    F("div.rz.f32") F("div.rm.f32") F("copysign.f32")
#define SINGLE3(F) KINDS(F, "fma")
#define SINGLE1(F) F("neg.f32") F("abs.f32") F("neg.ftz.f32") F("rcp.rn.f32") F("rcp.rz.f32") F("rcp.rn.ftz.f32") \
    F("rcp.approx.f32") F("rcp.approx.ftz.f32") F("sqrt.rn.f32") F("sqrt.rm.f32") F("sqrt.rn.ftz.f32") \
    F("sqrt.approx.f32") F("sqrt.approx.ftz.f32") F("rsqrt.approx.f32") F("rsqrt.approx.ftz.f32") \
    F("cvt.rni.f32.f32") F("cvt.rzi.f32.f32") F("cvt.rmi.f32.f32") F("cvt.rpi.f32.f32") F("cvt.rni.ftz.f32.f32") \
    F("cvt.rzi.sat.f32.f32") F("cvt.sat.f32.f32") F("cvt.ftz.f32.f32")
#define TRANSCENDENTAL(F) F("ex2.approx.f32") F("ex2.approx.ftz.f32") F("lg2.approx.f32") F("lg2.approx.ftz.f32") \
    F("sin.approx.f32") F("sin.approx.ftz.f32") F("cos.approx.f32") F("cos.approx.ftz.f32") F("tanh.approx.f32")
#define COMPARE(F) F("eq.f32") F("ne.f32") F("lt.f32") F("le.f32") F("gt.f32") F("ge.f32") F("equ.f32") F("neu.f32") \
    F("ltu.f32") F("leu.f32") F("gtu.f32") F("geu.f32") F("num.f32") F("nan.f32") F("lt.ftz.f32") F("neu.ftz.f32")

// conversions: type of the result, constraint of the result, type of the source
#define TO_INT(F, t) F("cvt.rni." t) F("cvt.rzi." t) F("cvt.rmi." t) F("cvt.rpi." t)
#define F32_TO_INT(F) TO_INT(F, "s32.f32") TO_INT(F, "u32.f32") F("cvt.rzi.ftz.s32.f32") F("cvt.rpi.ftz.u32.f32")
#define F32_TO_SHORT(F) F("cvt.rni.s16.f32") F("cvt.rzi.u16.f32") F("cvt.rzi.s8.f32") F("cvt.rmi.u8.f32")
#define F32_TO_LONG(F) TO_INT(F, "s64.f32") TO_INT(F, "u64.f32") F("cvt.rzi.ftz.u64.f32")
#define F64_TO_INT(F) TO_INT(F, "s32.f64") TO_INT(F, "u32.f64")
#define F64_TO_LONG(F) TO_INT(F, "s64.f64") TO_INT(F, "u64.f64")
#define INT_TO_F32(F) ROUND2(F, "cvt", ".f32.s32") ROUND2(F, "cvt", ".f32.u32") F("cvt.rn.sat.f32.s32")
#define SHORT_TO_F32(F) F("cvt.rn.f32.s16") F("cvt.rz.f32.u16")
#define LONG_TO_F32(F) ROUND2(F, "cvt", ".f32.s64") ROUND2(F, "cvt", ".f32.u64")
#define INT_TO_F64(F) F("cvt.rn.f64.s32") F("cvt.rn.f64.u32")
#define LONG_TO_F64(F) ROUND2(F, "cvt", ".f64.s64") ROUND2(F, "cvt", ".f64.u64")
#define F64_TO_F32(F) ROUND2(F, "cvt", ".f32.f64") F("cvt.rn.ftz.f32.f64") F("cvt.rz.sat.f32.f64")
#define F32_TO_F64(F) F("cvt.f64.f32") F("cvt.ftz.f64.f32")

#define HALF2(F) F("add.rn.f16x2") F("add.ftz.f16x2") F("add.sat.f16x2") F("sub.f16x2") F("mul.f16x2") F("mul.ftz.f16x2") \
    F("mul.sat.f16x2") F("min.f16x2") F("max.f16x2") F("min.NaN.f16x2") F("max.ftz.f16x2") F("add.rn.bf16x2") \
    F("sub.rn.bf16x2") F("mul.rn.bf16x2") F("min.bf16x2") F("max.NaN.bf16x2") \
    F("set.lt.f16x2.f16x2") F("set.geu.f16x2.f16x2") F("set.eq.ftz.u32.f16x2") F("set.ne.u32.bf16x2")
#define HALF3(F) F("fma.rn.f16x2") F("fma.rn.ftz.f16x2") F("fma.rn.sat.f16x2") F("fma.rn.relu.f16x2") \
    F("fma.rn.bf16x2") F("fma.rn.relu.bf16x2")
#define HALF1(F) F("neg.f16x2") F("abs.f16x2") F("neg.bf16x2")
#define HALF_TO_F32(F) F("cvt.f32.f16") F("cvt.ftz.f32.f16")
#define BF16_TO_F32(F) F("cvt.f32.bf16")
#define F32_TO_HALF(F) F("cvt.rn.f16.f32") F("cvt.rz.f16.f32") F("cvt.rn.sat.f16.f32") F("cvt.rn.bf16.f32") F("cvt.rz.bf16.f32")
#define F32S_TO_HALVES(F) F("cvt.rn.f16x2.f32") F("cvt.rz.f16x2.f32") F("cvt.rn.relu.f16x2.f32") F("cvt.rn.bf16x2.f32") \
    F("cvt.rz.bf16x2.f32") F("cvt.rz.relu.bf16x2.f32")
#define HALF_TO_INT(F) TO_INT(F, "s32.f16") TO_INT(F, "u32.f16")
#define INT_TO_HALF(F) F("cvt.rn.f16.s32") F("cvt.rz.f16.u32") F("cvt.rp.f16.s32") F("cvt.rm.f16.u32")
#define HALF_TO_F64(F) F("cvt.f64.f16")
#define F64_TO_HALF(F) F("cvt.rn.f16.f64") F("cvt.rz.f16.f64")
#define HALF_ROUNDED(F) F("cvt.rni.f16.f16") F("cvt.rzi.f16.f16")
#define HALF_COMPARE(F) F("eq.f16") F("lt.f16") F("geu.f16") F("nan.f16") F("lt.bf16") F("neu.ftz.f16")
#define F32_TO_TF32(F) F("cvt.rna.tf32.f32")
#define TRANSCENDENTAL2(F) F("ex2.approx.f16x2") F("tanh.approx.f16x2") F("ex2.approx.ftz.bf16x2") F("tanh.approx.bf16x2")

// e4m3 and e5m2, and what came with them
#define F32S_TO_BYTES(F) F("cvt.rn.satfinite.e4m3x2.f32") F("cvt.rn.satfinite.e5m2x2.f32") \
    F("cvt.rn.satfinite.relu.e4m3x2.f32") F("cvt.rn.satfinite.relu.e5m2x2.f32")
#define F32S_TO_FOUR_BYTES(F) F("cvt.rn.satfinite.e4m3x2.f32") F("cvt.rn.satfinite.e5m2x2.f32")
#define HALVES_TO_BYTES(F) F("cvt.rn.satfinite.e4m3x2.f16x2") F("cvt.rn.satfinite.e5m2x2.f16x2") \
    F("cvt.rn.satfinite.relu.e4m3x2.f16x2") F("cvt.rn.satfinite.relu.e5m2x2.f16x2")
#define BYTES_TO_HALVES(F) F("cvt.rn.f16x2.e4m3x2") F("cvt.rn.f16x2.e5m2x2") F("cvt.rn.relu.f16x2.e4m3x2") \
    F("cvt.rn.relu.f16x2.e5m2x2")
#define F32_TO_TF32_ROUNDED(F) F("cvt.rn.tf32.f32") F("cvt.rz.tf32.f32") F("cvt.rn.relu.tf32.f32")

#define DOUBLE2(F) ROUND2(F, "add", ".f64") ROUND2(F, "mul", ".f64") F("min.f64") F("max.f64") F("div.rn.f64") F("div.rz.f64")
#define DOUBLE3(F) ROUND2(F, "fma", ".f64")
#define DOUBLE1(F) F("rcp.rn.f64") F("sqrt.rn.f64") F("rcp.approx.ftz.f64") F("rsqrt.approx.f64") F("rsqrt.approx.ftz.f64") F("neg.f64") \
    F("cvt.rni.f64.f64") F("cvt.rzi.f64.f64") F("cvt.rmi.f64.f64") F("cvt.rpi.f64.f64")
#define DOUBLE_COMPARE(F) F("eq.f64") F("lt.f64") F("geu.f64") F("neu.f64") F("num.f64") F("nan.f64") F("ltu.f64")

#define INTEGER2(F) F("div.s32") F("div.u32") F("rem.s32") F("rem.u32")
#define LONG2(F) F("div.s64") F("div.u64") F("rem.s64") F("rem.u64")
