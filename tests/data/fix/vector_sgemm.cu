// The inner part of an sgemm: A is stored transposed, so that both operands are read as float4. 64 x 64 x 16 tiles.

constexpr int BM = 64, BN = 64, BK = 16, TM = 4, TN = 4;

__global__ void __launch_bounds__(256) sgemm_vec(const float *A, const float *B, float *C, int n) {
  __shared__ float As[BK * BM];
  __shared__ float Bs[BK * BN];

  const int threadRow = threadIdx.x / (BN / TN);
  const int threadCol = threadIdx.x % (BN / TN);
  const int innerRowA = threadIdx.x / (BK / 4);
  const int innerColA = threadIdx.x % (BK / 4);
  const int innerRowB = threadIdx.x / (BN / 4);
  const int innerColB = threadIdx.x % (BN / 4);

  A += blockIdx.y * BM * n;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * n + blockIdx.x * BN;

  float acc[TM][TN] = {};
  for (int bk = 0; bk < n; bk += BK) {
    // transpose A on its way in
    const float4 a = reinterpret_cast<const float4 *>(&A[innerRowA * n + innerColA * 4])[0];
    As[(innerColA * 4 + 0) * BM + innerRowA] = a.x;
    As[(innerColA * 4 + 1) * BM + innerRowA] = a.y;
    As[(innerColA * 4 + 2) * BM + innerRowA] = a.z;
    As[(innerColA * 4 + 3) * BM + innerRowA] = a.w;
    reinterpret_cast<float4 *>(&Bs[innerRowB * BN + innerColB * 4])[0] =
        reinterpret_cast<const float4 *>(&B[innerRowB * n + innerColB * 4])[0];
    __syncthreads();
    A += BK;
    B += BK * n;
    for (int k = 0; k < BK; ++k) {
      const float4 m = reinterpret_cast<const float4 *>(&As[k * BM + threadRow * TM])[0];
      const float4 w = reinterpret_cast<const float4 *>(&Bs[k * BN + threadCol * TN])[0];
      const float regM[TM] = {m.x, m.y, m.z, m.w}, regN[TN] = {w.x, w.y, w.z, w.w};
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) acc[i][j] += regM[i] * regN[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    reinterpret_cast<float4 *>(&C[(threadRow * TM + i) * n + threadCol * TN])[0] =
        make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}
